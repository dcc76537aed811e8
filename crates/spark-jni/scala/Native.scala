package qjam.spark

import java.io.File
import org.apache.spark.SparkFiles

/** The functions of libqjam_spark_jni.so; `src/calls.rs` says what each does. */
object Native {
  private var isLoaded = false

  /** Loads the library that Spark has brought here as a file of this name. */
  def load(name: String): Unit = synchronized {
    if (!isLoaded) {
      val file = new File(SparkFiles.get(name)).getAbsolutePath
      try System.load(file)
      catch {
        case error: UnsatisfiedLinkError =>
          throw new IllegalStateException(
            s"qjam: $file cannot be loaded on ${java.net.InetAddress.getLocalHost.getHostName} (${sys.props("os.arch")}): " +
              s"${error.getMessage}; executors must have the kind of processor and system that it was built for")
      }
      isLoaded = true
    }
  }

  @native def steps(
      starts: Array[Long], rows: Array[Int], values: Array[Double], w: Array[Double], alpha: Array[Double],
      settings: Array[Double], seed: Long, round: Long, partition: Int): Array[Double]
  @native def has(descent: Long, partition: Int): Boolean
  @native def hold(descent: Long, partition: Int, starts: Array[Long], rows: Array[Int], values: Array[Double]): Unit
  @native def place(descent: Long, partition: Int, alpha: Array[Double], round: Long): Unit
  @native def advance(
      descent: Long, partition: Int, w: Array[Double], settings: Array[Double], seed: Long, round: Long): Array[Double]
  @native def coordinates(descent: Long, partition: Int, round: Long): Array[Double]
  @native def slopes(descent: Long, partition: Int, w: Array[Double]): Double
  @native def release(descent: Long): Unit
}
