;;; Reads texts with SBCL's own reader and prints back what it read; tests/formats/oracles.py talks to it.
;;; A frame is a length of four bytes and as many bytes of UTF-8. A request is a frame with the number of
;;; texts and then the texts. For each text comes a frame with the number of forms in it and then each form
;;; as it is printed; or a frame with -1 and then what is wrong.

(defpackage :passepartout (:use :cl) (:export #:frame-message))

(defvar *in* (sb-sys:make-fd-stream 0 :input t :element-type '(unsigned-byte 8) :buffering :full))
(defvar *out* (sb-sys:make-fd-stream 1 :output t :element-type '(unsigned-byte 8) :buffering :full))

(defun receive ()
  (let* ((length (loop repeat 4
                       for n = (or (read-byte *in* nil) (sb-ext:exit :abort t))
                         then (+ (* n 256) (read-byte *in*))
                       finally (return n)))
         (octets (make-array length :element-type '(unsigned-byte 8))))
    (read-sequence octets *in*)
    (sb-ext:octets-to-string octets :external-format :utf-8)))

(defun send (text)
  (let ((octets (sb-ext:string-to-octets text :external-format :utf-8)))
    (loop for place from 24 downto 0 by 8 do (write-byte (ldb (byte 8 place) (length octets)) *out*))
    (write-sequence octets *out*)))

(defun forms (text)
  (with-input-from-string (stream text)
    (loop for form = (read stream nil stream) until (eq form stream) collect (prin1-to-string form))))

(defun answer (text)
  (handler-case (handler-bind ((warning #'muffle-warning)) (forms text))
    (error (problem) (send "-1") (send (princ-to-string problem)))
    (:no-error (forms) (send (princ-to-string (length forms))) (mapc #'send forms))))

(let ((*read-eval* nil) (*print-pretty* nil) (*package* (find-package :cl-user)))
  (loop (mapc #'answer (loop repeat (parse-integer (receive)) collect (receive)))
        (finish-output *out*)))
