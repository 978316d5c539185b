;; Marks IPv4 packets to UDP port 5004 as real time (code point 46) and drops truncated headers.
;; `MILLSTREAM_BLESS=1 cargo test -p millstream-router --test extension` assembles it to mark.wasm.
(module
  (memory (export "memory") 1)
  ;; Address at which the router puts a frame of up to 2,048 bytes.
  (global (export "packet") i32 (i32.const 1024))

  ;; Returns the sum of the IPv4 header's ten words without the checksum.
  (func $sum (result i32)
    (local $at i32) (local $sum i32)
    (local.set $at (i32.const 1038))
    (loop $next
      (if (i32.ne (local.get $at) (i32.const 1048))
        (then
          (local.set $sum
            (i32.add (local.get $sum)
              (i32.or
                (i32.shl (i32.load8_u (local.get $at)) (i32.const 8))
                (i32.load8_u offset=1 (local.get $at)))))))
      (local.set $at (i32.add (local.get $at) (i32.const 2)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 1058))))
    (local.get $sum))

  ;; Takes the frame's length; returns the length to route, or 0 to drop the frame.
  (func (export "process") (param $length i32) (result i32)
    (local $sum i32)
    ;; Ethernet, IPv4 without options, UDP.
    (if (i32.lt_u (local.get $length) (i32.const 42)) (then (return (i32.const 0))))
    (if (i32.ne (i32.load16_u (i32.const 1036)) (i32.const 0x0008)) (then (return (i32.const 0))))
    (if (i32.ne (i32.load8_u (i32.const 1038)) (i32.const 0x45))
      (then (return (local.get $length))))
    (if (i32.ne (i32.load8_u (i32.const 1047)) (i32.const 17)) (then (return (local.get $length))))
    ;; Port 5004 in network byte order.
    (if (i32.ne (i32.load16_u (i32.const 1060)) (i32.const 0x8c13))
      (then (return (local.get $length))))
    (i32.store8 (i32.const 1039) (i32.const 0xb8))
    ;; The router drops packets with a wrong checksum: update it for the changed header.
    (local.set $sum (call $sum))
    (local.set $sum
      (i32.add
        (i32.and (local.get $sum) (i32.const 0xffff))
        (i32.shr_u (local.get $sum) (i32.const 16))))
    (local.set $sum
      (i32.xor (i32.const 0xffff)
        (i32.add
          (i32.and (local.get $sum) (i32.const 0xffff))
          (i32.shr_u (local.get $sum) (i32.const 16)))))
    (i32.store8 (i32.const 1048) (i32.shr_u (local.get $sum) (i32.const 8)))
    (i32.store8 (i32.const 1049) (local.get $sum))
    (local.get $length)))
