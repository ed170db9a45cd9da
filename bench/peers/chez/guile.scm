;; SPDX-License-Identifier: MIT
;; clone.scm over Guile.
(use-modules (system base compile))
(define arguments (cddr (command-line)))
(define (microseconds)
  (quotient (* 1000000 (get-internal-real-time)) internal-time-units-per-second))
(define (print-fixed us)
  (let ((digits (number->string (+ 1000000 (remainder us 1000000)))))
    (display (quotient us 1000000))
    (display ".")
    (display (substring digits 1 7))))
(compile-and-load (cadr (command-line)))
