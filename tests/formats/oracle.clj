;; Reads texts with clojure.edn and prints back what it read; tests/formats/oracles.py talks to it.
;; The frames are those of oracle.lisp.

(require '[clojure.edn :as edn])
(import '[java.io BufferedInputStream BufferedOutputStream DataInputStream DataOutputStream EOFException]
        '[java.io PushbackReader StringReader])

(def in (DataInputStream. (BufferedInputStream. System/in)))
(def out (DataOutputStream. (BufferedOutputStream. System/out)))

(defn receive []
  (let [octets (byte-array (.readInt in))]
    (.readFully in octets)
    (String. octets "UTF-8")))

(defn send-frame [content]
  (let [octets (.getBytes (str content) "UTF-8")]
    (.writeInt out (alength octets))
    (.write out octets)))

(defn forms [text]
  (let [reader (PushbackReader. (StringReader. text))
        options {:eof reader :default tagged-literal}]
    (mapv pr-str (take-while #(not (identical? reader %)) (repeatedly #(edn/read options reader))))))

(defn answer [text]
  (let [frames (try (let [found (forms text)] (cons (count found) found))
                    (catch Throwable problem [-1 problem]))]
    (run! send-frame frames)))

(binding [*print-namespace-maps* false]
  (try
    (while true
      (run! answer (vec (repeatedly (Long/parseLong (receive)) receive)))
      (.flush out))
    (catch EOFException _)))
