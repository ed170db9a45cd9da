;; SPDX-License-Identifier: MIT
;; The clone workload with call/cc: a function suspends itself, eight calls deep, and its
;; continuation is called with each number. chez.scm and guile.scm load this, and define
;; arguments, (microseconds), and (print-fixed microseconds).

(define (fail)
  (display "usage: clone CLONES\n" (current-error-port))
  (exit 2))

(define (to-count text)
  (let ((n (string->number text)))
    (if (and n (exact? n) (integer? n) (> n 0) (< n 4294967296)
             (char-numeric? (string-ref text 0)))
        n
        (fail))))

(define give #f)        ; continues whatever resumed
(define suspended #f)   ; the continuation

(define (deep level)
  (if (= level 0)
      (call/cc (lambda (k) (set! suspended k) (give 0)))
      (let ((value (deep (- level 1))))
        (if (= level 8) (+ value 1) value))))

(define (resume k value)
  (call/cc (lambda (back)
             (set! give back)
             (k value))))

(define (run clones)
  (resume (lambda (unused) (let ((value (deep 8))) (give value))) 0)
  (let* ((k suspended)
         (start (microseconds)))
    (let loop ((i 0) (sum 0))
      (if (< i clones)
          (loop (+ i 1) (+ sum (resume k i)))
          (begin
            (print-fixed (- (microseconds) start))
            (newline)
            (display sum)
            (newline))))))

(if (= (length arguments) 1)
    (run (to-count (car arguments)))
    (fail))
