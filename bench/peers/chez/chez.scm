;; SPDX-License-Identifier: MIT
;; clone.scm over Chez Scheme.
(define arguments (cddr (command-line)))
(define (microseconds)
  (let ((t (current-time 'time-monotonic)))
    (+ (* 1000000 (time-second t)) (quotient (time-nanosecond t) 1000))))
(define (print-fixed us)
  (let ((digits (number->string (+ 1000000 (remainder us 1000000)))))
    (display (quotient us 1000000))
    (display ".")
    (display (substring digits 1 7))))
(load (cadr (command-line)))
