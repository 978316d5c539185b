//! A switch with buffers at inputs and outputs and a crossbar between them.
//!
//! ```text
//! link ─> input: a queue per (output, channel) ─crossbar─> output: egress scheduler ─> link
//! ```
//!
//! Each input and each output transfers one packet at a time. Arbitration runs after every change:
//! a packet is ready, a crossbar port is free, or an output buffer has free credits. It matches the
//! affected outputs with inputs in rounds. In a round, each free output *grants* one free input
//! whose packet fits into the output's buffer; each input with grants *accepts* one. Turns are
//! round-robin: among inputs at an output, outputs at an input, channels within a pair.
//!
//! Source: the MinBW paper, section VI-A (combined input-output buffers, virtual output queues,
//! round robin); McKeown, *The iSLIP scheduling algorithm for input-queued switches* (1999).

use millstream::CREDIT_BYTES;

use super::packets::{Packets, Queue};
use super::parameters::{Arbiter, Crossbar, Queueing};

/// Returns the number of credits that a packet of `bytes` occupies.
#[inline]
pub(crate) fn credits(bytes: u32) -> u32 {
    bytes.div_ceil(CREDIT_BYTES)
}

/// A packet's transfer from an input to an output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) input: u8,
    pub(crate) output: u8,
    /// The packet's channel at the input.
    pub(crate) from_channel: u8,
    /// The packet's channel at the output.
    pub(crate) channel: u8,
    pub(crate) credits: u32,
    pub(crate) packet: u32,
}

/// Returns the lowest set bit of `mask` at or above `from`, or else the lowest set bit.
#[inline]
fn next_round_robin(mask: u64, from: u8) -> u8 {
    let above = mask & (u64::MAX << from);
    let mask = if above == 0 { mask } else { above };
    mask.trailing_zeros().to_le_bytes()[0]
}

#[inline]
fn next_turn(turn: u8) -> u8 {
    (turn + 1) % 64
}

/// The buffers and the arbiter of one switch.
#[derive(Debug)]
pub(crate) struct Switch {
    ports: usize,
    channels: usize,
    queueing: Queueing,
    arbiter: Arbiter,
    /// Queue heads by input, output, and channel at the output.
    queues: Box<[Queue]>,
    /// Packets behind the head of a FIFO input, by input and channel at the input. The flag says
    /// whether the head is in `queues`.
    fifo_backlog: Box<[(Queue, bool)]>,
    /// Channels with a waiting packet, by input and output.
    channels_waiting: Box<[u64]>,
    /// Inputs with a waiting packet, by output.
    inputs_waiting: Box<[u64]>,
    /// Outputs with a waiting packet, by input.
    requested_outputs: Box<[u64]>,
    /// Free credits of the output buffers, by output and channel.
    free_credits: Box<[u32]>,
    /// Channels whose output buffer fits the largest packet, by output.
    fits_largest: Box<[u64]>,
    /// Credits of the largest packet.
    largest: u32,
    inputs_busy: u64,
    outputs_busy: u64,
    /// Current transfer of each output.
    transfers: Box<[Option<Transfer>]>,
    /// Round-robin turns: inputs at each output, outputs at each input, channels of each pair.
    grant_turn: Box<[u8]>,
    accept_turn: Box<[u8]>,
    channel_turn: Box<[u8]>,
    /// Outputs that need arbitration.
    changed: u64,
    /// Outputs that granted each input in this round; 0 between rounds.
    grants: Box<[u64]>,
}

impl Switch {
    /// Creates an idle switch. `largest` is the largest packet in credits; every buffer fits it.
    pub(crate) fn new(ports: u16, channels: usize, crossbar: &Crossbar, largest: u32) -> Self {
        let ports = usize::from(ports);
        Self {
            ports,
            fits_largest: vec![u64::MAX; ports].into(),
            largest,
            channels,
            queueing: crossbar.queueing,
            arbiter: crossbar.arbiter,
            queues: vec![Queue::EMPTY; ports * ports * channels].into(),
            fifo_backlog: vec![(Queue::EMPTY, false); ports * channels].into(),
            channels_waiting: vec![0; ports * ports].into(),
            inputs_waiting: vec![0; ports].into(),
            requested_outputs: vec![0; ports].into(),
            free_credits: vec![crossbar.output_credits; ports * channels].into(),
            inputs_busy: 0,
            outputs_busy: 0,
            transfers: vec![None; ports].into(),
            grant_turn: vec![0; ports].into(),
            accept_turn: vec![0; ports].into(),
            channel_turn: vec![0; ports * ports].into(),
            changed: 0,
            grants: vec![0; ports].into(),
        }
    }

    /// Makes a packet at `input` available for transfer to `output` on `channel`.
    ///
    /// In a FIFO input the packet may queue behind the head; the `route` argument of
    /// [`arbitrate`](Self::arbitrate) must later return this output and channel for it.
    #[inline]
    pub(crate) fn ready(
        &mut self,
        input: usize,
        packet: u32,
        output: usize,
        channel: usize,
        packets: &mut Packets,
    ) {
        if self.queueing == Queueing::Fifo {
            let from = input * self.channels + usize::from(packets.get(packet).channel);
            let (queue, at_head) = &mut self.fifo_backlog[from];
            if *at_head {
                return queue.push(packet, packets);
            }
            *at_head = true;
        }
        self.request(input, packet, output, channel, packets);
    }

    #[inline]
    fn request(
        &mut self,
        input: usize,
        packet: u32,
        output: usize,
        channel: usize,
        packets: &mut Packets,
    ) {
        let pair = input * self.ports + output;
        self.queues[pair * self.channels + channel].push(packet, packets);
        self.channels_waiting[pair] |= 1 << channel;
        self.inputs_waiting[output] |= 1 << input;
        self.requested_outputs[input] |= 1 << output;
        self.changed |= 1 << output;
    }

    /// Returns credits to a channel of `output` when a packet has left the output's buffer.
    #[inline]
    pub(crate) fn release_credits(&mut self, output: usize, channel: usize, credits: u32) {
        let free_credits = &mut self.free_credits[output * self.channels + channel];
        *free_credits += credits;
        self.fits_largest[output] |= u64::from(*free_credits >= self.largest) << channel;
        self.changed |= 1 << output;
    }

    /// Reserves credits in a channel of `output` for a packet.
    #[inline]
    fn reserve_credits(&mut self, output: usize, channel: usize, credits: u32) {
        let free_credits = &mut self.free_credits[output * self.channels + channel];
        *free_credits -= credits;
        self.fits_largest[output] &= !(u64::from(*free_credits < self.largest) << channel);
    }

    /// Completes the transfer to `output` and frees both ends of the crossbar.
    #[inline]
    pub(crate) fn transferred(&mut self, output: usize) -> Transfer {
        let transfer =
            self.transfers[output].take().expect("the output has a transfer in progress");
        self.outputs_busy &= !(1 << output);
        self.inputs_busy &= !(1 << transfer.input);
        self.changed |= 1 << output | self.requested_outputs[usize::from(transfer.input)];
        transfer
    }

    /// Matches the outputs that need arbitration with inputs; calls `begin` for each new transfer.
    ///
    /// `route(packet)` returns the output and channel of a packet that reaches the head of a FIFO
    /// input.
    #[inline]
    pub(crate) fn arbitrate(
        &mut self,
        packets: &mut Packets,
        mut route: impl FnMut(u32, &Packets) -> (usize, usize),
        mut begin: impl FnMut(Transfer),
    ) {
        let mut first_round = true;
        while self.changed != 0 {
            let granted = self.grant(packets);
            let mut inputs = granted;
            while inputs != 0 {
                let input = inputs.trailing_zeros() as usize;
                inputs &= inputs - 1;
                let grants = std::mem::take(&mut self.grants[input]);
                let output = next_round_robin(grants, self.accept_turn[input]);
                if first_round || self.arbiter == Arbiter::RoundRobin {
                    self.accept_turn[input] = next_turn(output);
                    let input = u8::try_from(input).expect("an input is below 64");
                    self.grant_turn[usize::from(output)] = next_turn(input);
                }
                if let Some(transfer) = self.begin(input, usize::from(output), packets) {
                    begin(transfer);
                    if self.queueing == Queueing::Fifo {
                        self.promote_next(&transfer, packets, &mut route);
                    }
                }
            }
            if granted == 0 {
                break;
            }
            first_round = false;
        }
        self.changed = 0;
    }

    /// Runs the grant phase: each free output that needs arbitration grants one input.
    ///
    /// Returns the granted inputs. An output without a candidate is removed from `changed`.
    #[inline]
    fn grant(&mut self, packets: &Packets) -> u64 {
        self.changed &= !self.outputs_busy;
        let mut granted = 0;
        let mut outputs = self.changed;
        while outputs != 0 {
            let output = outputs.trailing_zeros() as usize;
            outputs &= outputs - 1;
            let mut candidates = self.inputs_waiting[output] & !self.inputs_busy;
            let found = loop {
                if candidates == 0 {
                    break None;
                }
                let input = next_round_robin(candidates, self.grant_turn[output]);
                if self.fitting_channels(usize::from(input), output, packets) != 0 {
                    break Some(input);
                }
                candidates &= !(1 << input);
            };
            match found {
                Some(input) => {
                    self.grants[usize::from(input)] |= 1 << output;
                    granted |= 1 << input;
                }
                None => self.changed &= !(1 << output),
            }
        }
        granted
    }

    /// Returns the channels whose head at `input` fits into the buffer of `output`.
    #[inline]
    fn fitting_channels(&self, input: usize, output: usize, packets: &Packets) -> u64 {
        let pair = input * self.ports + output;
        let waiting = self.channels_waiting[pair];
        let fits_largest = self.fits_largest[output];
        let mut fitting = waiting & fits_largest;
        // The packet length matters only in channels that may not fit the largest packet.
        let mut scarce = waiting & !fits_largest;
        while scarce != 0 {
            let channel = scarce.trailing_zeros() as usize;
            scarce &= scarce - 1;
            let head = self.queues[pair * self.channels + channel].head();
            let fits = head.is_some_and(|head| {
                credits(packets.get(head).bytes)
                    <= self.free_credits[output * self.channels + channel]
            });
            fitting |= u64::from(fits) << channel;
        }
        fitting
    }

    #[inline]
    fn begin(&mut self, input: usize, output: usize, packets: &mut Packets) -> Option<Transfer> {
        let pair = input * self.ports + output;
        let fitting = self.fitting_channels(input, output, packets);
        let channel = next_round_robin(fitting, self.channel_turn[pair]);
        self.channel_turn[pair] = next_turn(channel);
        let queue = &mut self.queues[pair * self.channels + usize::from(channel)];
        let packet = queue.pop(packets)?;
        if queue.head().is_none() {
            self.channels_waiting[pair] &= !(1 << channel);
            if self.channels_waiting[pair] == 0 {
                self.inputs_waiting[output] &= !(1 << input);
                self.requested_outputs[input] &= !(1 << output);
            }
        }
        let state = packets.get_mut(packet);
        let transfer = Transfer {
            input: u8::try_from(input).ok()?,
            output: u8::try_from(output).ok()?,
            from_channel: state.channel,
            channel,
            credits: credits(state.bytes),
            packet,
        };
        state.channel = channel;
        self.reserve_credits(output, usize::from(channel), transfer.credits);
        self.inputs_busy |= 1 << input;
        self.outputs_busy |= 1 << output;
        self.transfers[output] = Some(transfer);
        Some(transfer)
    }

    /// Moves the next packet of a FIFO input to the head, after `taken` has left it.
    fn promote_next(
        &mut self,
        taken: &Transfer,
        packets: &mut Packets,
        route: &mut impl FnMut(u32, &Packets) -> (usize, usize),
    ) {
        let input = usize::from(taken.input);
        let (queue, at_head) =
            &mut self.fifo_backlog[input * self.channels + usize::from(taken.from_channel)];
        match queue.pop(packets) {
            Some(packet) => {
                let (output, channel) = route(packet, packets);
                self.request(input, packet, output, channel, packets);
            }
            None => *at_head = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::traffic::Injection;
    use millstream_traffic::Random;

    const PACKET: Injection =
        Injection { time_ns: 0, class: 0, destination: 0, bytes: 64, connection: 0 };

    /// Returns a switch with virtual output queues and credits for a packet at each output.
    fn switch(ports: u16, arbiter: Arbiter) -> Switch {
        let crossbar = Crossbar {
            rate_bps: 1,
            input_credits: 64,
            output_credits: 64,
            queueing: Queueing::VirtualOutput,
            arbiter,
        };
        Switch::new(ports, 1, &crossbar, 1)
    }

    /// The route of a packet in an input's queue, which virtual output queues do not need.
    fn no_route(_: u32, _: &Packets) -> (usize, usize) {
        unreachable!("queues are virtual output queues")
    }

    /// Whenever output 0 is free, input 0 is busy with output 1. So round robin promises an input
    /// no share of an output, and bounds on waits count all transfers of an input.
    #[test]
    fn a_busy_input_loses_its_turns_at_an_output() {
        for arbiter in [Arbiter::RoundRobin, Arbiter::Islip] {
            let (mut switch, mut packets) = (switch(2, arbiter), Packets::default());
            let begun = |switch: &mut Switch, packets: &mut Packets| {
                let mut begun = Vec::new();
                switch.arbitrate(packets, no_route, |of| begun.push((of.input, of.output)));
                begun
            };
            // The packet from 0 to 0 waits from the beginning.
            for (input, output, expected) in
                [(1, 0, Some((1, 0))), (0, 1, Some((0, 1))), (0, 0, None)]
            {
                let packet = packets.insert(0, 0, &PACKET);
                switch.ready(input, packet, output, 0, &mut packets);
                assert_eq!(begun(&mut switch, &mut packets), Vec::from_iter(expected));
            }
            // The two transfers end by turns, each while a packet of the same pair waits.
            for _ in 0..1_000 {
                for (input, output, expected) in [(1, 0, (1, 0)), (0, 1, (0, 1))] {
                    let packet = packets.insert(0, 0, &PACKET);
                    switch.ready(input, packet, output, 0, &mut packets);
                    switch.transferred(output);
                    switch.release_credits(output, 0, 1);
                    assert_eq!(begun(&mut switch, &mut packets), [expected]);
                }
            }
        }
    }

    /// The longest time for which a free input of a switch with `PORTS` ports has packets, over
    /// random arrivals; a transfer takes `TRANSFER_NS` at most.
    fn longest_gap_ns(arbiter: Arbiter, seed: u64) -> u64 {
        let (mut switch, mut packets) = (switch(PORTS, arbiter), Packets::default());
        let mut random = Random::new(seed, 0);
        let ports = usize::from(PORTS);
        let (mut waiting, mut gaps_ns, mut longest_ns) = (vec![0; ports], vec![0; ports], 0);
        let mut ends_ns = vec![None; ports];
        for now_ns in 0..100_000 {
            for (output, end_ns) in ends_ns.iter_mut().enumerate() {
                if end_ns.take_if(|ns| *ns == now_ns).is_some() {
                    switch.transferred(output);
                    switch.release_credits(output, 0, 1);
                }
            }
            for (input, waiting) in waiting.iter_mut().enumerate() {
                if *waiting < 40 && random.below(TRANSFER_NS) == 0 {
                    let output = usize::try_from(random.below(PORTS.into())).unwrap();
                    let packet = packets.insert(0, 0, &PACKET);
                    switch.ready(input, packet, output, 0, &mut packets);
                    *waiting += 1;
                }
            }
            switch.arbitrate(&mut packets, no_route, |transfer| {
                let length_ns = TRANSFER_NS - random.below(TRANSFER_NS / 2);
                ends_ns[usize::from(transfer.output)] = Some(now_ns + length_ns);
                waiting[usize::from(transfer.input)] -= 1;
            });
            for (input, gap_ns) in gaps_ns.iter_mut().enumerate() {
                let has_packets = waiting[input] > 0 && switch.inputs_busy & 1 << input == 0;
                *gap_ns = if has_packets { *gap_ns + 1 } else { 0 };
                longest_ns = longest_ns.max(*gap_ns);
            }
        }
        longest_ns
    }

    const PORTS: u16 = 4;
    const TRANSFER_NS: u64 = 12;

    /// Under round robin, a free input with packets waits for one transfer of each other input at
    /// most. Bounds count these turns for each transfer of an input. Under iSLIP it may wait for
    /// longer, since turns do not pass an output that an input refuses.
    #[test]
    fn a_free_input_waits_for_one_turn_of_each_other() {
        let longest_ns = |arbiter| (0..20).map(|seed| longest_gap_ns(arbiter, seed)).max();
        let turns_ns = u64::from(PORTS - 1) * TRANSFER_NS;
        let round_robin_ns = longest_ns(Arbiter::RoundRobin).unwrap();
        assert!((turns_ns / 2..=turns_ns).contains(&round_robin_ns), "{round_robin_ns}");
        let islip_ns = longest_ns(Arbiter::Islip).unwrap();
        assert!(islip_ns > turns_ns, "{islip_ns}");
    }
}
