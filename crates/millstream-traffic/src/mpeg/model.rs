//! A model of MPEG-4 video, for use without a video file.
//!
//! Groups of pictures are IBBPBBPBBPBB. A frame's size is level × {I 1.8, P 1.25, B 0.806} ×
//! lognormal (CoV 0.10). The level is lognormal per scene and varies within a scene with a CoV of
//! 0.12; its overall CoV is 0.47. Scene lengths are Pareto(1.4) distributed, at least 4 groups.
//! Frame sizes are limited to 4.4 × mean.
//!
//! The model matches the published statistics of Jurassic Park in high quality: frame CoV 0.59,
//! peak/mean 4.37, H 0.83 (Fitzek and Reisslein 2001).

use super::{Frame, FrameKind};
use crate::random::{Random, quantile_above};

use FrameKind::{B, I, P};

const PATTERN: [FrameKind; 12] = [I, B, B, P, B, B, P, B, B, P, B, B];
const FRAME_VARIATION: f64 = 0.10;
const IN_SCENE_VARIATION: f64 = 0.12;
const GROUP_VARIATION: f64 = 0.47;
const PEAK: f64 = 4.4;
const SCENE_SHAPE: f64 = 1.4;
const SHORTEST_SCENE: f64 = 4.0;
/// The maximum length of a scene in groups, so a single scene cannot fill a whole run.
const LONGEST_SCENE: f64 = 4000.0;

/// An endless iterator over model frames.
#[derive(Clone, Debug)]
pub struct Mpeg4Model {
    random: Random,
    mean_bytes: f64,
    scene_level: f64,
    scene_groups: u32,
    group_level: f64,
    position: usize,
}

impl Mpeg4Model {
    /// Creates frames with a mean of `mean_bytes` bytes for `stream` and `seed`.
    #[must_use]
    pub fn new(mean_bytes: f64, seed: u64, stream: u64) -> Self {
        let random = Random::new(seed, stream);
        let (scene_level, group_level) = (1.0, 1.0);
        Self { random, mean_bytes, scene_level, scene_groups: 0, group_level, position: 0 }
    }

    /// Deprecated alias of [`at_random_position`](Self::at_random_position).
    #[deprecated(note = "renamed to `at_random_position`")]
    #[must_use]
    pub fn at_random_place(mean_bytes: f64, seed: u64, stream: u64) -> Self {
        Self::at_random_position(mean_bytes, seed, stream)
    }

    /// Creates a model like [`Mpeg4Model::new`], at a random position in a scene and in a group of
    /// pictures.
    ///
    /// Many videos that start at their first frames would send all their I frames at once.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    #[must_use]
    pub fn at_random_position(mean_bytes: f64, seed: u64, stream: u64) -> Self {
        let mut model = Self::new(mean_bytes, seed, stream);
        // A random instant selects a scene with a probability proportional to its length.
        let groups = loop {
            let tail = model.random.uniform();
            let threshold = model.random.uniform() * LONGEST_SCENE;
            if let Some(groups) = quantile_above(threshold, SHORTEST_SCENE, SCENE_SHAPE, tail) {
                break (groups.min(LONGEST_SCENE) * model.random.uniform()) as u32 + 1;
            }
        };
        model.scene_level = model.draw_scene_level();
        model.scene_groups = groups;
        model.position = model.random.below(PATTERN.len() as u64) as usize;
        if model.position > 0 {
            model.begin_group();
        }
        model
    }

    /// Draws the length of a scene in groups, not rounded.
    fn scene_length(&mut self) -> f64 {
        let length = SHORTEST_SCENE * libm::pow(self.random.uniform(), -1.0 / SCENE_SHAPE);
        length.min(LONGEST_SCENE)
    }

    fn draw_scene_level(&mut self) -> f64 {
        // The variation between scenes is the overall variation without the part inside scenes.
        let in_all = 1.0 + GROUP_VARIATION * GROUP_VARIATION;
        let inside = 1.0 + IN_SCENE_VARIATION * IN_SCENE_VARIATION;
        self.random.lognormal(libm::sqrt(in_all / inside - 1.0))
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn begin_group(&mut self) {
        if self.scene_groups == 0 {
            self.scene_level = self.draw_scene_level();
            self.scene_groups = self.scene_length() as u32;
        }
        self.scene_groups -= 1;
        self.group_level = self.scene_level * self.random.lognormal(IN_SCENE_VARIATION);
    }
}

impl Iterator for Mpeg4Model {
    type Item = Frame;

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn next(&mut self) -> Option<Frame> {
        if self.position == 0 {
            self.begin_group();
        }
        let kind = PATTERN[self.position];
        self.position = (self.position + 1) % PATTERN.len();
        let scale = match kind {
            I => 1.8,
            P => 1.25,
            B => 0.806,
        };
        let size = self.group_level * scale * self.random.lognormal(FRAME_VARIATION);
        let bytes = (size.min(PEAK) * self.mean_bytes).max(1.0);
        Some(Frame { kind, bytes: bytes as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn videos_at_random_positions_load_every_frame_time_equally() {
        let videos = 20_000;
        let mut times = [0.0; 13];
        for video in 0..videos {
            let frames = Mpeg4Model::at_random_position(10_000.0, 1, video);
            for (time, frame) in times.iter_mut().zip(frames) {
                *time += f64::from(frame.bytes);
            }
        }
        for time in times {
            let mean = time / videos as f64 / 10_000.0;
            assert!((mean - 1.0).abs() < 0.03, "{mean} of the mean");
        }
    }

    #[test]
    fn the_statistics_match_the_published_ones() {
        let n = 400_000;
        let sizes: Vec<f64> = (0..4)
            .flat_map(|seed| Mpeg4Model::new(10_000.0, seed, 0).take(n / 4))
            .map(|frame| f64::from(frame.bytes))
            .collect();
        let mean = sizes.iter().sum::<f64>() / n as f64;
        let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / n as f64;
        let variation = variance.sqrt() / mean;
        let peak = sizes.iter().copied().fold(0.0, f64::max) / mean;
        assert!((mean / 10_000.0 - 1.0).abs() < 0.08, "mean {mean}");
        assert!((variation - 0.59).abs() < 0.06, "CoV {variation}");
        assert!((peak - 4.37).abs() < 0.5, "peak/mean {peak}");
    }
}
