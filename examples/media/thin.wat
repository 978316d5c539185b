;; An instruction of the media server that thins streams by frame type. A program sets the level
;; with a message of one byte: 0 (every frame, the initial level), 1 (no B-frames) or 2 (only
;; I-frames). The answer is the previous level.
;;
;;   wat2wasm thin.wat        (package wabt) makes thin.wasm
;;   curl -X PUT -H 'Content-Type: application/wasm' --data-binary @thin.wasm \
;;     'http://127.0.0.1:8580/instructions/thin?streams=clip'
;;   printf '\001' | curl -H 'Content-Type: application/octet-stream' --data-binary @- \
;;     http://127.0.0.1:8580/instructions/thin
(module
  (memory (export "memory") 1)
  ;; Addresses of the frame description (64 bytes) and of messages (4096 bytes).
  (global (export "frame") i32 (i32.const 0))
  (global (export "message") i32 (i32.const 1024))
  (global $level (mut i32) (i32.const 0))

  ;; Called when a frame is released: 0 drops it, 1 passes it, 2 passes it as optional.
  (func (export "filter") (param $length i32) (result i32)
    ;; The second field is the type: 0 I, 1 P, 2 B. Types from 3 - level on are dropped.
    (i32.lt_u (i32.load (i32.const 4)) (i32.sub (i32.const 3) (global.get $level))))

  ;; Called by a program: takes the message's length, returns the answer's.
  (func (export "call") (param $length i32) (result i32)
    (local $before i32)
    (local.set $before (global.get $level))
    (if (i32.eqz (local.get $length)) (then (return (i32.const 0))))
    (if (i32.gt_u (i32.load8_u (i32.const 1024)) (i32.const 2)) (then (return (i32.const 0))))
    (global.set $level (i32.load8_u (i32.const 1024)))
    (i32.store8 (i32.const 1024) (local.get $before))
    (i32.const 1)))
