//! Media files in a temporary folder, which ffmpeg makes from the example clip.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with `clip.mpg` (MPEG-1), `clip.mp4` (H.264 with B-frames) and derived files.
pub(crate) struct TestClips {
    pub(crate) folder: tempfile::TempDir,
}

impl TestClips {
    /// Makes files of `frames` frames at `rate`; H.264 has an I-frame every `group` frames, MPEG-1
    /// every twelve.
    pub(crate) fn make(frames: usize, rate: &str, group: &str) -> Self {
        let clips = Self { folder: tempfile::tempdir().unwrap() };
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
        let (clip, frames) = (clip.to_str().unwrap(), frames.to_string());
        let from =
            ["-stream_loop", "-1", "-i", clip, "-an", "-vf", "scale=176:144", "-threads", "1"];
        let to = ["-frames:v", &frames, "-bf", "2", "-b:v", rate];
        clips.ffmpeg(&[&from[..], &to, &["-c:v", "mpeg1video", "-g", "12", "clip.mpg"]].concat());
        clips.ffmpeg(&[&from[..], &to, &["-c:v", "libx264", "-g", group, "clip.mp4"]].concat());
        clips
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn ffmpeg(&self, arguments: &[&str]) {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-y"]).args(arguments).current_dir(&self.folder);
        assert!(ffmpeg.status().unwrap().success());
    }
}
