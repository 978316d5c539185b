//! The window that repairs contracts which need more than the link.

use millstream::Window;
use millstream::bounds::StreamLimits;

/// The most streams for which a window is searched.
const SEARCHED_STREAMS: usize = 64;

/// The most windows that ask for one request and are tried for a stream.
const SEARCHED_WINDOWS: u32 = 64;

/// Returns the stream and its window that adds the least loss among those with which `suffices`
/// holds: the first stream of several. The other windows stay as they are. A window that suffices
/// also does with more losses.
pub(super) fn looser_window(
    streams: &[StreamLimits],
    suffices: impl Fn(&[StreamLimits]) -> bool,
) -> Option<(usize, Window)> {
    if streams.len() > SEARCHED_STREAMS {
        return None;
    }
    let mut changed = streams.to_vec();
    let mut found = |stream: usize| {
        let window = streams[stream].window;
        let looser = looser(window, |looser| {
            changed[stream].window = looser;
            suffices(&changed)
        });
        changed[stream].window = window;
        looser.map(|looser| (added_loss(window, looser), stream, looser))
    };
    let all = (0..streams.len()).filter_map(&mut found);
    all.reduce(|least, next| if is_less(next.0, least.0) { next } else { least })
        .map(|(_, stream, window)| (stream, window))
}

/// Returns the first window that allows more losses and suffices, in this order: of as many
/// requests, then those that ask for one request of more.
fn looser(window: Window, mut suffices: impl FnMut(Window) -> bool) -> Option<Window> {
    let (lost, of) = (window.lost(), window.of());
    // A window 0/0, or one that allows every loss, has no looser one.
    let last = of.checked_sub(1).filter(|last| lost <= *last)?;
    let mut found = |x: u32, y: u32| Window::new(x, y).ok().filter(|window| suffices(*window));
    if lost < last && found(last, of).is_some() {
        let (mut fails, mut enough) = (lost, last);
        while enough - fails > 1 {
            let middle = fails + (enough - fails) / 2;
            if found(middle, of).is_some() { enough = middle } else { fails = middle }
        }
        return Window::new(enough, of).ok();
    }
    (of..of.saturating_add(SEARCHED_WINDOWS)).find_map(|x| found(x, x.saturating_add(1)))
}

/// Returns the share of requests that `looser` allows to be lost beyond `window`, as a fraction.
fn added_loss(window: Window, looser: Window) -> (u128, u128) {
    let of = |part: u32, of: u32| u128::from(part) * u128::from(of);
    let over = of(looser.lost(), window.of()) - of(window.lost(), looser.of());
    (over, of(window.of(), looser.of()))
}

fn is_less(a: (u128, u128), b: (u128, u128)) -> bool {
    a.0 * b.1 < b.0 * a.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::Link;
    use millstream::bounds::Bounds;

    /// Returns streams of 125 bytes, 1 µs at 1 Gbit/s, with periods in µs and windows.
    fn streams(of: &[(u64, u32, u32)]) -> Vec<StreamLimits> {
        let stream = |&(period_us, lost, of): &(u64, u32, u32)| StreamLimits {
            period_ns: period_us * 1_000,
            window: Window::new(lost, of).unwrap(),
            ..StreamLimits::new(125, 125)
        };
        of.iter().map(stream).collect()
    }

    /// Returns the window with which the mandatory requests fit the link, and its stream.
    fn repair(of: &[(u64, u32, u32)]) -> Option<(usize, u32, u32)> {
        let link = Link::new(1_000_000_000, 0);
        let fits = |streams: &[StreamLimits]| !Bounds::new(link, streams).need(false, true).1;
        let (stream, window) = looser_window(&streams(of), fits)?;
        Some((stream, window.lost(), window.of()))
    }

    #[test]
    fn the_window_that_adds_the_least_loss_is_found() {
        // 11/12 + 1/8 > 1. With 10/12 it fits, and with half of the second stream.
        assert_eq!(repair(&[(1, 1, 12), (8, 0, 1)]), Some((0, 2, 12)));
        // 1/2 + 2/3 > 1. It fits with a third of the second stream, and with half of the first.
        assert_eq!(repair(&[(2, 0, 1), (1, 1, 3)]), Some((1, 2, 3)));
        // Only the second stream's window helps: the others ask for nothing or too little.
        assert_eq!(repair(&[(1, 0, 0), (1, 0, 1), (2, 0, 1), (1, 3, 3)]), Some((1, 1, 2)));
    }

    #[test]
    fn no_window_is_found_if_one_stream_is_not_enough() {
        assert_eq!(repair(&[(1, 0, 1); 3]), None);
        assert_eq!(repair(&vec![(1_000, 0, 1); SEARCHED_STREAMS + 1]), None);
    }

    #[test]
    fn windows_that_ask_for_one_request_follow_the_equally_long_ones() {
        // Of each window, the first that asks for at most `most` of 1,000 requests.
        let of = |lost, of, most: u64| {
            let asks = |w: Window| u64::from(w.of() - w.lost()) * 1_000 / u64::from(w.of());
            let window = looser(Window::new(lost, of).unwrap(), |window| asks(window) <= most)?;
            Some((window.lost(), window.of()))
        };
        assert_eq!(of(1, 4, 999), Some((2, 4)));
        assert_eq!(of(1, 4, 400), Some((3, 4)));
        assert_eq!(of(1, 4, 200), Some((4, 5)));
        assert_eq!(of(0, 1, 200), Some((4, 5)));
        assert_eq!(of(2, 3, 100), Some((9, 10)));
        assert_eq!(of(0, 1_000, 1), Some((999, 1_000)));
        assert_eq!(of(0, 1_000, 700), Some((300, 1_000)));
        assert_eq!(of(0, 1, 15), Some((62, 63)));
        assert_eq!(of(0, 1, 10), None, "too many windows");
        assert_eq!(of(3, 3, 1_000), None);
        assert_eq!(of(0, 0, 1_000), None);
    }
}
