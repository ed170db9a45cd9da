;;;; SPDX-License-Identifier: MIT Tasks of TAGBODY and ECASE. A task is a closure over its
;;;; state. A call goes on where it yielded last, and returns true unless the task has
;;;; ended. Variables that live across a yield are bound outside. A call of an ended task
;;;; is an error.

(declaim (optimize (speed 3) (safety 1) (debug 0)))

(defmacro task (&body body)
  "A task of BODY, the body of a TAGBODY, with (yield) among its forms. (yield) must be a
form of the body itself, not of a form in it; loops are made with GO."
  (let* ((state (gensym "STATE"))
         (start (gensym "START"))
         (tags (list start))
         (forms (loop for form in body
                      for tag = (gensym "YIELDED")
                      if (equal form '(yield))
                        append `((setf ,state ,(length tags)) (return t) ,tag)
                        and do (setf tags (append tags (list tag)))
                      else collect form)))
    `(let ((,state 0))
       (declare (type (integer 0 ,(length tags)) ,state))
       (lambda ()
         (block nil
           (tagbody
              (ecase ,state
                ,@(loop for tag in tags for i from 0 collect `(,i (go ,tag))))
              ,start
              ,@forms
              (setf ,state ,(length tags))))))))

(defun fail (message)
  (format *error-output* "~A: ~A~%" (first sb-ext:*posix-argv*) message)
  (finish-output *error-output*)
  (sb-ext:exit :code 1 :abort t))

(defun arguments (&rest names)
  (let ((texts (rest sb-ext:*posix-argv*)))
    (unless (and (= (length texts) (length names))
                 (every (lambda (text)
                          (and (<= 1 (length text) 18)
                               (every (lambda (c) (char<= #\0 c #\9)) text)
                               (plusp (parse-integer text))))
                        texts))
      (format *error-output* "usage: ~A~{ ~A~}~%" (first sb-ext:*posix-argv*) names)
      (finish-output *error-output*)
      (sb-ext:exit :code 2 :abort t))
    (mapcar #'parse-integer texts)))

(defun now ()
  "Nanoseconds of CLOCK_MONOTONIC, which is 1."
  (multiple-value-bind (seconds nanoseconds)
      (sb-unix::clock-gettime 1)
    (+ (* seconds 1000000000) nanoseconds)))

(defun print-result (value answer)
  (format t "~,6F~%~D~%" value answer))

(defun run (main)
  (handler-case (funcall main)
    (storage-condition () (fail "not enough memory"))
    (error (e) (fail e)))
  (finish-output)
  (sb-ext:exit :code 0 :abort t))
