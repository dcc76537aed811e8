package qjam.spark

import org.apache.spark.{Partition, SparkContext, SparkEnv, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import scala.collection.mutable.ArrayBuffer

/** What is done in every round: sigma', the weight of half the squares, steps as a multiple of a partition's columns, a seed. */
final case class Settings(sigma: Double, lambda: Double, h: Double, seed: Long) {
  def numbers: Array[Double] = Array(sigma, lambda, h)
}

/** How partitions get to a round: coordinates at an earlier one, and the residuals of the rounds since. */
final class Recipe(val round: Long, val alphas: Array[Array[Double]], val residuals: Array[Array[Double]]) extends Serializable

/** What a task says: null instead of numbers where its partition is not at the round; coordinates if they were asked for. */
final class Answer(val partition: Int, val place: String, val numbers: Array[Double], val alpha: Array[Double]) extends Serializable

/** Seconds of a round, of its slowest task and of the driver; and the objective after it. */
final class Round(val seconds: Double, val worker: Double, val master: Double, val objective: Double)

/** Partitions that prefer the executors where they were before. */
private final class Placed(from: RDD[Columns], places: Array[String]) extends RDD[Columns](from) {
  override def compute(split: Partition, context: TaskContext): Iterator[Columns] = from.iterator(split, context)
  override protected def getPartitions: Array[Partition] = from.partitions
  override protected def getPreferredLocations(split: Partition): Seq[String] = Seq(places(split.index)).filter(_.nonEmpty)
}

/** A descent whose columns and coordinates stay in the executors' native memory.
  *
  * A round is a job over the partitions of `columns`, of which a task takes its record only if the executor has not had it. A task that
  * lands where its partition is not, or is at another round, says so; a second job gives it a recipe, by which it is made again:
  * the bits are the same. Coordinates come home every `checkpointRounds` rounds and not in between.
  */
final class Descent(
    sc: SparkContext, columns: RDD[Columns], targets: Array[Double], settings: Settings, library: String,
    checkpointRounds: Int = 16) {
  import Descent._

  private val id = java.util.UUID.randomUUID().getMostSignificantBits
  private val parts = columns.getNumPartitions
  private var next = 0L
  private var checkpoint: Option[(Long, Array[Array[Double]])] = None
  private val since = ArrayBuffer.empty[Array[Double]]
  private var places = Array.fill(parts)("")
  private var placed = columns
  private var w = targets.map(-_)

  /** Partitions that had to be made again so far. */
  var restored = 0

  /** Does a round. */
  def round(): Round = {
    val begun = System.nanoTime()
    val isCheckpoint = (next + 1) % checkpointRounds == 0
    val answers = all(w, isCheckpoint, None)
    val there = System.nanoTime()
    since += w
    val change = answers(0).numbers.clone()
    for (answer <- answers.tail; i <- change.indices) change(i) += answer.numbers(i)
    w = Array.tabulate(w.length)(i => w(i) + change(i))
    val master = System.nanoTime()
    next += 1
    prefer(answers.map(_.place))
    if (isCheckpoint) keep(answers)
    val ended = System.nanoTime()
    val worker = answers.map(_.numbers(w.length + 1)).max
    val objective = 0.5 * w.map(x => x * x).sum + 0.5 * settings.lambda * change(w.length)
    new Round((ended - begun) * 1e-9, worker, (master - there) * 1e-9, objective)
  }

  /** How far an objective is above the minimum at most. */
  def gap(objective: Double): Double = {
    val shared = sc.broadcast(w)
    val descent = id
    val sums =
      try
        job { (partition, records) =>
          // Columns are all that it needs. If they were not here, the next round says so.
          if (!Native.has(descent, partition)) Task.hold(descent, partition, records.next())
          Native.slopes(descent, partition, shared.value)
        }
      finally shared.destroy()
    val bound = -0.5 * w.map(x => x * x).sum - w.indices.map(i => w(i) * targets(i)).sum - sums.sum / (2 * settings.lambda)
    objective - bound
  }

  /** The coordinates, partition by partition. */
  def coordinates(): Array[Array[Double]] = {
    require(next > 0, "qjam: there are no coordinates before the first round")
    if (checkpoint.forall(_._1 != next)) {
      // The last round once more: who has done it answers at once, now with the coordinates.
      next -= 1
      val last = since.remove(since.length - 1)
      val answers = all(last, true, Some(recipe()))
      next += 1
      keep(answers)
    }
    checkpoint.get._2
  }

  /** Has executors forget it. */
  def release(): Unit = {
    val descent = id
    job { (_, _) => Native.release(descent); 0.0 }
  }

  private def recipe(): Recipe = {
    val (round, alphas) = checkpoint.getOrElse((0L, Array.empty[Array[Double]]))
    new Recipe(round, alphas, since.toArray)
  }

  /** The answers of all tasks to a round that begins with this residual, in the order of partitions. */
  private def all(residual: Array[Double], wantsAlpha: Boolean, known: Option[Recipe]): Array[Answer] = {
    val answers = new Array[Answer](parts)
    val shared = sc.broadcast(residual)
    var help = known.map(sc.broadcast(_))
    var (open, attempts): (Seq[Int], Int) = (0 until parts, 0)
    try
      while (open.nonEmpty) {
        if (attempts == AttemptsMax)
          throw new IllegalStateException(s"qjam: partitions ${open.mkString(", ")} were lost $attempts times in one round")
        val (descent, numbers, seed, round, name) = (id, settings.numbers, settings.seed, next, library)
        val recipe = help
        val work = (context: TaskContext, records: Iterator[Columns]) =>
          Task.run(descent, context.partitionId(), records, shared, numbers, seed, round, wantsAlpha, recipe, name)
        for (answer <- sc.runJob(placed, work, open) if answer.numbers != null) answers(answer.partition) = answer
        open = open.filter(answers(_) == null)
        if (open.nonEmpty) {
          attempts += 1
          restored += open.length
          if (help.isEmpty) help = Some(sc.broadcast(this.recipe()))
        }
      }
    finally (help ++ Some(shared)).foreach(_.destroy())
    answers
  }

  private def job(ask: (Int, Iterator[Columns]) => Double): Array[Double] = {
    val name = library
    val work = (context: TaskContext, records: Iterator[Columns]) => {
      Native.load(name)
      ask(context.partitionId(), records)
    }
    sc.runJob(placed, work)
  }

  /** Coordinates have come home. */
  private def keep(answers: Array[Answer]): Unit = {
    checkpoint = Some((next, answers.map(_.alpha)))
    since.clear()
  }

  /** Has tasks prefer the executors where they ran, none of which is preferred by more than its share. */
  private def prefer(ran: Array[String]): Unit = {
    val share = (parts + ran.distinct.length - 1) / math.max(1, math.max(ran.distinct.length, math.min(parts, slots())))
    val counts = scala.collection.mutable.Map.empty[String, Int].withDefaultValue(0)
    val wanted = ran.map { place =>
      counts(place) += 1
      if (counts(place) <= math.max(1, share)) place else ""
    }
    if (!wanted.sameElements(places)) {
      places = wanted
      placed = new Placed(columns, wanted)
    }
  }

  private def slots(): Int = math.max(1, sc.getExecutorMemoryStatus.size - 1)
}

object Descent {
  /** A partition that is lost so often in one round is given up. */
  private val AttemptsMax = 8
}

/** What a task does. */
private object Task {
  def hold(descent: Long, partition: Int, columns: Columns): Unit =
    Native.hold(descent, partition, columns.starts, columns.rows, columns.values)

  def run(
      descent: Long, partition: Int, records: Iterator[Columns], w: Broadcast[Array[Double]], settings: Array[Double],
      seed: Long, round: Long, wantsAlpha: Boolean, recipe: Option[Broadcast[Recipe]], library: String): Answer = {
    Native.load(library)
    val env = SparkEnv.get
    val place = s"executor_${env.blockManager.blockManagerId.host}_${env.executorId}"
    val isNew = !Native.has(descent, partition) && (round == 0 || recipe.nonEmpty)
    if (isNew) hold(descent, partition, records.next())
    var numbers = Native.advance(descent, partition, w.value, settings, seed, round)
    for (help <- recipe if numbers == null) {
      val known = help.value
      if (known.alphas.nonEmpty) Native.place(descent, partition, known.alphas(partition), known.round)
      else if (!isNew) hold(descent, partition, records.next())
      for ((residual, i) <- known.residuals.zipWithIndex)
        Native.advance(descent, partition, residual, settings, seed, known.round + i)
      numbers = Native.advance(descent, partition, w.value, settings, seed, round)
    }
    val alpha = if (wantsAlpha && numbers != null) Native.coordinates(descent, partition, round + 1) else null
    new Answer(partition, place, numbers, alpha)
  }
}
