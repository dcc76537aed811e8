package qjam.spark

import org.apache.spark.SparkContext
import org.apache.spark.ml.feature.LabeledPoint
import org.apache.spark.rdd.RDD
import org.apache.spark.storage.StorageLevel

/** A ridge regression: coefficients, the objective, and how far that is above the minimum at most. */
final class Ridge(val coefficients: Array[Double], val objective: Double, val gap: Double, val rounds: Int)

/** For users of Spark in Scala. `addLibrary` once, then `ridge`. */
object Qjam {
  private var library: Option[String] = None

  /** Has Spark bring the native library to the executors. */
  def addLibrary(sc: SparkContext, path: String): Unit = {
    sc.addFile(path)
    library = Some(new java.io.File(path).getName)
  }

  /** Minimises 1/2 |X a - y|^2 + lambda/2 |a|^2 until the duality gap is at most this share of the objective.
    *
    * Columns are dealt to `partitions` by an RDD of one record each, which stays where Spark keeps it and is read again only where an
    * executor was lost. `h` is the work between two exchanges, as a multiple of a partition's columns.
    */
  def ridge(
      sc: SparkContext, data: RDD[LabeledPoint], lambda: Double, tolerance: Double = 1e-4, partitions: Int = 0, h: Double = 1.0,
      roundsMax: Int = 1000, seed: Long = 0): Ridge = {
    require(lambda > 0 && lambda < Double.PositiveInfinity, s"qjam: lambda is $lambda; give a number above 0")
    require(roundsMax > 0, s"qjam: roundsMax is $roundsMax; give a number above 0")
    require(h > 0 && h < 1e6, s"qjam: h is $h; give a number above 0")
    val name = library.getOrElse(throw new IllegalStateException("qjam: call Qjam.addLibrary(sc, \"…/libqjam_spark_jni.so\") first"))
    val count = if (partitions > 0) partitions else math.max(1, sc.defaultParallelism)
    val rows = data.zipWithIndex().cache()
    try {
      val targets = rows.map { case (point, row) => (row, point.label) }.collect().sortBy(_._1).map(_._2)
      require(targets.nonEmpty, "qjam: there are no rows")
      require(targets.forall(y => !y.isNaN && !y.isInfinite), "qjam: a label is no finite number")
      val width = rows.map(_._1.features.size).max()
      val columns = dealt(rows, width, count).persist(StorageLevel.MEMORY_AND_DISK)
      val descent = new Descent(sc, columns, targets, Settings(count.toDouble, lambda, h, seed), name)
      try found(descent, width, count, tolerance, roundsMax)
      finally {
        descent.release()
        columns.unpersist()
      }
    } finally rows.unpersist()
  }

  /** The same for a LIBSVM file. */
  def ridgeOfFile(sc: SparkContext, path: String, lambda: Double, tolerance: Double, partitions: Int, h: Double): Ridge = {
    val rows = org.apache.spark.mllib.util.MLUtils.loadLibSVMFile(sc, path)
    ridge(sc, rows.map(row => LabeledPoint(row.label, row.features.asML)), lambda, tolerance, partitions, h)
  }

  private def found(descent: Descent, width: Int, count: Int, tolerance: Double, roundsMax: Int): Ridge = {
    var (rounds, objective, gap) = (0, Double.PositiveInfinity, Double.PositiveInfinity)
    while (rounds == 0 || (rounds < roundsMax && gap > tolerance * objective)) {
      objective = descent.round().objective
      rounds += 1
      // A gap costs as much as a job.
      if (rounds % 4 == 0 || rounds == roundsMax) gap = descent.gap(objective)
    }
    val coefficients = new Array[Double](width)
    for ((alphas, k) <- descent.coordinates().zipWithIndex; (alpha, i) <- alphas.zipWithIndex)
      coefficients(k + i * count) = alpha
    new Ridge(coefficients, objective, gap, rounds)
  }

  /** Column j is the (j / partitions)-th of partition j mod partitions. */
  private def dealt(rows: RDD[(LabeledPoint, Long)], width: Int, partitions: Int): RDD[Columns] = {
    val entries = rows.flatMap { case (point, row) =>
      val found = Iterator.newBuilder[(Int, (Int, Int, Double))]
      point.features.foreachActive { (column, value) =>
        if (value.isNaN || value.isInfinite) throw new IllegalArgumentException(s"qjam: row $row, column $column is $value")
        if (value != 0.0) found += ((column % partitions, (column / partitions, row.toInt, value)))
      }
      found.result()
    }
    entries.partitionBy(new Parts(partitions)).mapPartitionsWithIndex { (k, all) =>
      val sorted = all.map(_._2).toArray.sortBy { case (column, row, _) => (column, row) }
      val own = (width - k + partitions - 1) / partitions
      val starts = new Array[Long](own + 1)
      for ((column, _, _) <- sorted) starts(column + 1) += 1
      for (column <- 0 until own) starts(column + 1) += starts(column)
      Iterator.single(new Columns(starts, sorted.map(_._2), sorted.map(_._3)))
    }
  }
}

/** Keys are the numbers of partitions. */
private final class Parts(override val numPartitions: Int) extends org.apache.spark.Partitioner {
  override def getPartition(key: Any): Int = key.asInstanceOf[Int]
}
