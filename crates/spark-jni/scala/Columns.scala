package qjam.spark

import java.io.RandomAccessFile
import java.nio.ByteOrder
import java.nio.channels.FileChannel

/** The columns of a partition, one after the other. */
final class Columns(val starts: Array[Long], val rows: Array[Int], val values: Array[Double]) extends Serializable {
  def count: Int = starts.length - 1
}

object Columns {

  /** Reads a file as `bench/sparse.py` writes it; what follows the values is left alone. */
  def read(path: String): Columns = reading(path) { bytes =>
    bytes.getLong()
    val (columns, entries) = (bytes.getLong().toInt, bytes.getLong().toInt)
    val starts = Array.fill(columns + 1)(bytes.getLong())
    val rows = Array.fill(entries)(bytes.getInt())
    new Columns(starts, rows, Array.fill(entries)(bytes.getDouble()))
  }

  /** The targets at the end of such a file. */
  def targets(path: String): Array[Double] = reading(path) { bytes =>
    val rows = bytes.getLong().toInt
    bytes.position(bytes.limit() - 8 * rows)
    Array.fill(rows)(bytes.getDouble())
  }

  private def reading[R](path: String)(read: java.nio.ByteBuffer => R): R = {
    val file = new RandomAccessFile(path, "r")
    try {
      val bytes = file.getChannel.map(FileChannel.MapMode.READ_ONLY, 0, file.length())
      read(bytes.order(ByteOrder.LITTLE_ENDIAN))
    } finally file.close()
  }
}
