package qjam.spark

import java.io.{DataOutputStream, FileOutputStream}
import org.apache.spark.SparkContext
import org.apache.spark.api.java.JavaSparkContext
import org.apache.spark.rdd.RDD
import scala.collection.mutable.ArrayBuffer

/** Variants A, B and B* of `bench/paper`, whose rules are those of `qjam_algos::linear::drawn`.
  *
  * A has a record for each column, and its solver in Scala; B has a record for each partition, and the native solver on Java's own
  * arrays. In both, coordinates travel to the workers and back in every round. B* is a [[Descent]] over numbers of partitions.
  */
final class Study(java: JavaSparkContext, folder: String, parts: Int, lambda: Double, seed: Long, library: String) {
  private val sc: SparkContext = java.sc
  private val targets = Columns.targets(s"$folder/all.bin")
  private lazy val byColumn: RDD[Column] = filled(numbers().flatMap(Study.records))
  private lazy val flat: RDD[Columns] = filled(numbers())

  /** Numbers of partitions, whose columns are read where and when somebody wants them. */
  private def numbers(): RDD[Columns] = {
    val folder = this.folder
    sc.parallelize(0 until parts, parts).mapPartitions(_.map(k => Columns.read(Study.path(folder, k))))
  }

  private def filled[T](rdd: RDD[T]): RDD[T] = {
    rdd.cache().count()
    rdd
  }

  private def settings(h: Double): Settings = Settings(parts.toDouble, lambda, h, seed)

  /** What B* does its rounds with. */
  def held(h: Double, checkpointRounds: Int): Descent =
    new Descent(sc, numbers(), targets, settings(h), library, checkpointRounds)

  /** Runs rounds, each told on a line: seconds, the slowest worker's, the driver's own, the objective. Coordinates go to a file. */
  def run(variant: String, h: Double, most: Int, target: Double, limit: Double, to: String): String = {
    val rounds = ArrayBuffer.empty[Round]
    def goesOn(objective: Double) =
      rounds.length < most && !(target > 0 && objective <= target) && rounds.map(_.seconds).sum <= limit
    val alphas = if (variant == "B*") {
      val descent = held(h, 16)
      do rounds += descent.round() while (goesOn(rounds.last.objective))
      val found = descent.coordinates()
      descent.release()
      found
    } else {
      val travelling = new Travelling(settings(h))
      do rounds += travelling.round(variant, rounds.length) while (goesOn(rounds.last.objective))
      travelling.alphas
    }
    Study.write(to, alphas.flatten)
    rounds.map(one => s"${one.seconds} ${one.worker} ${one.master} ${one.objective}").mkString("\n")
  }

  /** The driver of A and B. */
  private final class Travelling(settings: Settings) {
    private var w = targets.map(-_)
    var alphas: Array[Array[Double]] =
      Array.tabulate(parts)(k => new Array[Double](Columns.read(Study.path(folder, k)).count))

    def round(variant: String, number: Int): Round = {
      val begun = System.nanoTime()
      val shared = sc.broadcast(w)
      val own = alphas.map(sc.broadcast(_))
      val (numbers, seed, name) = (settings.numbers, settings.seed, library)
      val said =
        try
          if (variant == "A")
            byColumn.mapPartitionsWithIndex { (k, columns) =>
              val all = columns.toArray
              Iterator.single(Solver.steps(all, shared.value, own(k).value.clone(), numbers, seed, number, k))
            }.collect()
          else
            flat.mapPartitionsWithIndex { (k, columns) =>
              Native.load(name)
              val (alpha, all) = (own(k).value.clone(), columns.next())
              Iterator.single(
                (Native.steps(all.starts, all.rows, all.values, shared.value, alpha, numbers, seed, number, k), alpha))
            }.collect()
        finally (shared +: own).foreach(_.destroy())
      val there = System.nanoTime()
      val change = said(0)._1.clone()
      for ((more, _) <- said.tail; i <- change.indices) change(i) += more(i)
      w = Array.tabulate(w.length)(i => w(i) + change(i))
      val ended = System.nanoTime()
      alphas = said.map(_._2)
      val objective = 0.5 * w.map(x => x * x).sum + 0.5 * settings.lambda * change(w.length)
      new Round((ended - begun) * 1e-9, said.map(_._1(w.length + 1)).max, (ended - there) * 1e-9, objective)
    }
  }
}

object Study {
  private def path(folder: String, k: Int): String = s"$folder/part-$k.bin"

  private def records(columns: Columns): Iterator[Column] = Iterator.tabulate(columns.count) { j =>
    val (from, to) = (columns.starts(j).toInt, columns.starts(j + 1).toInt)
    val values = columns.values.slice(from, to)
    new Column(columns.rows.slice(from, to), values, Solver.squares(values))
  }

  private def write(path: String, numbers: Array[Double]): Unit = {
    val bytes = java.nio.ByteBuffer.allocate(8 * numbers.length).order(java.nio.ByteOrder.LITTLE_ENDIAN)
    numbers.foreach(bytes.putDouble)
    val file = new DataOutputStream(new FileOutputStream(path))
    try file.write(bytes.array())
    finally file.close()
  }
}

/** A column, and the sum of its squares. */
final class Column(val rows: Array[Int], val values: Array[Double], val square: Double) extends Serializable

/** The solver in Scala. */
private object Solver {
  def squares(values: Array[Double]): Double = {
    var (sum, i) = (0.0, 0)
    while (i < values.length) { sum += values(i) * values(i); i += 1 }
    sum
  }

  private def mix(from: Long): Long = {
    var z = from
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL
    z ^ (z >>> 31)
  }

  /** A delta alpha with the sum of squares and the seconds behind it, and alpha. */
  def steps(
      columns: Array[Column], w: Array[Double], alpha: Array[Double], settings: Array[Double], seed: Long, round: Int,
      partition: Int): (Array[Double], Array[Double]) = {
    val begun = System.nanoTime()
    val (sigma, lambda, h) = (settings(0), settings(1), settings(2))
    val golden = 0x9e3779b97f4a7c15L
    val key = Seq(seed, round.toLong, partition.toLong).foldLeft(0L)((key, part) => mix((key + golden) ^ part))
    val (n, r) = (columns.length, w.clone())
    val count = math.max(1L, (h * n).toLong)
    var step = 0L
    while (step < count) {
      step += 1
      val j = (((mix(key + golden * step) >>> 32) * n) >>> 32).toInt
      val column = columns(j)
      val (rows, values) = (column.rows, column.values)
      var (along, i) = (0.0, 0)
      while (i < rows.length) { along += values(i) * r(rows(i)); i += 1 }
      val bend = sigma * column.square + lambda
      val to = (sigma * column.square * alpha(j) - along) / bend
      val by = to - alpha(j)
      alpha(j) = to
      i = 0
      while (i < rows.length) { r(rows(i)) += sigma * by * values(i); i += 1 }
    }
    val change = new Array[Double](w.length + 2)
    for (i <- w.indices) change(i) = (r(i) - w(i)) / sigma
    change(w.length) = alpha.map(a => a * a).sum
    change(w.length + 1) = (System.nanoTime() - begun) * 1e-9
    (change, alpha)
  }
}
