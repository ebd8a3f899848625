import {
  checkOptions,
  ConfigError,
  DataError,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import { Metric, type MetricOptions, metricRules } from './metric.ts';
import { classesOf, readRows, requireSameShape, rowCount, type RowValues } from './rows.ts';

/** Labels of this value are not counted, as of padding. */
const IGNORED = -100;

/** The share of the labels that are predicted: `torchmetrics.Accuracy` with `average: micro`. */
export class Accuracy extends Metric {
  #right = 0;
  #all = 0;

  constructor(options: MetricOptions = {}) {
    super(options);
  }

  /** Adds a batch. Labels of -100 are not counted. Shape: predictions [rows, ..] or scores [rows, .., C], labels [rows, ..]. */
  async update(predictions: RowValues, labels: RowValues): Promise<void> {
    for (const [predicted, label] of await pairsOf(predictions, labels, (rows) =>
      this.countRows(rows),
    )) {
      this.#all += 1;
      if (predicted === label) this.#right += 1;
    }
  }

  /** NaN if there are no labels. */
  override async compute(): Promise<number> {
    const [right = 0, all = 0] = await this.sum([this.#right, this.#all]);
    return right / all;
  }

  protected override clear(): void {
    this.#right = 0;
    this.#all = 0;
  }
}

/** Options of `F1Score`. */
export interface F1ScoreOptions extends MetricOptions {
  /** The number of classes. */
  readonly classes: number;
  /**
   * `binary`: of the class 1. `macro`: the mean over the classes that are labels or predictions. `micro`: of the counts of
   * all classes together. Default: binary for two classes, or macro.
   */
  readonly average?: 'binary' | 'macro' | 'micro';
}

const f1Rules: OptionRules<F1ScoreOptions> = {
  ...metricRules,
  classes: option.required(option.integer(2)),
  average: option.oneOf('binary', 'macro', 'micro'),
};

/**
 * The harmonic mean of precision and recall: `sklearn.metrics.f1_score` with its defaults. A class that is predicted and
 * has no labels has the score 0, as one that has labels and is never predicted. A class without both is not in the macro
 * mean.
 */
export class F1Score extends Metric {
  readonly #classes: number;
  readonly #average: 'binary' | 'macro' | 'micro';
  /** For each class: predicted and right, predicted, and labelled. */
  #counts: Float64Array;

  constructor(options: F1ScoreOptions) {
    checkOptions('F1Score', options, f1Rules);
    const { classes, average = classes === 2 ? 'binary' : 'macro', ...others } = options;
    super(others);
    if (average === 'binary' && classes !== 2) throw notBinary(classes);
    this.#classes = classes;
    this.#average = average;
    this.#counts = new Float64Array(3 * classes);
  }

  /** Adds a batch. Labels of -100 are not counted. Shape: predictions [rows, ..] or scores [rows, .., C], labels [rows, ..]. */
  async update(predictions: RowValues, labels: RowValues): Promise<void> {
    const counts = this.#counts;
    const add = (index: number): void => {
      counts[index] = (counts[index] ?? 0) + 1;
    };
    for (const [predicted, label] of await pairsOf(predictions, labels, (rows) =>
      this.countRows(rows),
    )) {
      this.#requireClass(predicted);
      this.#requireClass(label);
      if (predicted === label) add(3 * label);
      add(3 * predicted + 1);
      add(3 * label + 2);
    }
  }

  /** 0 if there are no labels. */
  override async compute(): Promise<number> {
    const counts = await this.sum([...this.#counts]);
    const classes = Array.from({ length: this.#classes }, (_, index) => {
      const [right = 0, predicted = 0, labelled = 0] = counts.slice(3 * index);
      return { right, found: predicted + labelled };
    });
    const score = ({ right, found }: { right: number; found: number }): number =>
      found === 0 ? 0 : (2 * right) / found;
    if (this.#average === 'binary') return score(classes[1] ?? { right: 0, found: 0 });
    if (this.#average === 'micro') {
      return score({
        right: classes.reduce((sum, { right }) => sum + right, 0),
        found: classes.reduce((sum, { found }) => sum + found, 0),
      });
    }
    const occurring = classes.filter(({ found }) => found > 0);
    return occurring.reduce((sum, each) => sum + score(each), 0) / Math.max(1, occurring.length);
  }

  protected override clear(): void {
    this.#counts = new Float64Array(3 * this.#classes);
  }

  #requireClass(value: number): void {
    if (Number.isInteger(value) && value >= 0 && value < this.#classes) return;
    throw noClass(value, this.#classes);
  }
}

/**
 * The area under the receiver operating characteristic: the probability that a row of class 1 has a higher score than one
 * of class 0, where equal scores count half (`sklearn.metrics.roc_auc_score`). It needs the scores of all ranks, 16 bytes
 * a row, on each of them.
 */
export class RocAuc extends Metric {
  #scores: number[] = [];
  #labels: number[] = [];

  constructor(options: MetricOptions = {}) {
    super(options);
  }

  /** Adds a batch. Shape: scores [rows, ..], labels 0 or 1 of the same shape. */
  async update(scores: RowValues, labels: RowValues): Promise<void> {
    requireSameShape(scores, labels);
    const pairs = await pairsOf(scores, labels, (rows) => this.countRows(rows));
    for (const [score, label] of pairs) {
      if (label !== 0 && label !== 1) throw noClass(label, 2);
      if (Number.isNaN(score)) throw noScore();
      this.#scores.push(score);
      this.#labels.push(label);
    }
  }

  /** Throws DataError if all labels are the same. */
  override async compute(): Promise<number> {
    const scores = await this.concat(this.#scores);
    const labels = await this.concat(this.#labels);
    const order = scores
      .map((_, index) => index)
      .toSorted((a, b) => (scores[a] ?? 0) - (scores[b] ?? 0));
    const positives = labels.reduce((sum, label) => sum + label, 0);
    const negatives = labels.length - positives;
    if (positives === 0 || negatives === 0) throw oneClass(positives, negatives);
    // Pairs in which the positive one is higher, counted twice, so that equal scores count one.
    let pairs = 0;
    let below = 0;
    for (let start = 0; start < order.length;) {
      let end = start;
      let equalPositives = 0;
      while (end < order.length && scores[order[end] ?? 0] === scores[order[start] ?? 0]) {
        equalPositives += labels[order[end] ?? 0] ?? 0;
        end += 1;
      }
      const equalNegatives = end - start - equalPositives;
      pairs += equalPositives * (2 * below + equalNegatives);
      below += equalNegatives;
      start = end;
    }
    return pairs / (2 * positives * negatives);
  }

  protected override clear(): void {
    this.#scores = [];
    this.#labels = [];
  }
}

/** The predicted and the right class of each label that counts. */
async function pairsOf(
  predictions: RowValues,
  labels: RowValues,
  countRows: (rows: number) => number,
): Promise<readonly (readonly [predicted: number, label: number])[]> {
  // Counted before anything is awaited, so that batches count in the order of the calls.
  const rows = rowCount(labels);
  const counted = countRows(rows);
  const wanted = await readRows(labels);
  const predicted = classesOf(await readRows(predictions), wanted);
  const end = rows === 0 ? 0 : (wanted.values.length / rows) * counted;
  return Array.from(
    { length: end },
    (_, i) => [Number(predicted[i]), Number(wanted.values[i])] as const,
  ).filter(([, label]) => label !== IGNORED);
}

function noClass(value: number, classes: number): DataError {
  return new DataError(
    {
      asked: `a metric of ${classes} classes`,
      found: `the class ${value}`,
      todo: `Give whole numbers from 0 to ${classes - 1}, or -100 for labels that are not counted`,
    },
    { value, classes },
  );
}

function noScore(): DataError {
  return new DataError({
    asked: 'the area under a curve of scores',
    found: 'a score that is NaN, which has no place in their order',
    todo: 'See why the model returns NaN',
  });
}

function oneClass(positives: number, negatives: number): DataError {
  return new DataError(
    {
      asked: 'the area under a curve of scores',
      found: `${positives} rows of class 1 and ${negatives} of class 0`,
      todo: 'Give rows of both classes; without them the area is not defined',
    },
    { positives, negatives },
  );
}

function notBinary(classes: number): ConfigError {
  return new ConfigError(
    {
      asked: "F1Score with average: 'binary'",
      found: `${classes} classes`,
      todo: "Use average: 'macro' or 'micro'",
    },
    { classes },
  );
}
