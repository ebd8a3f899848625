import { allToAllRows } from '../graph/ops/collective.ts';
import { axisOf } from '../mesh.ts';
import { currentSession } from '../rank.ts';
import { formatShape } from '../base/shape.ts';
import { ConfigError, ShapeError } from '../spec/errors.ts';
import { allToAll } from './collectives.ts';
import { concat, fromData } from './create.ts';
import { Tensor } from './tensor.ts';

/** Sends rows of tensors to other ranks and back, with a different number of rows for each pair of ranks. */
export class RowExchange {
  readonly #axis: string;
  /** The number of rows that this rank sends to each rank of the axis, in the order of the ranks. */
  readonly sent: readonly number[];
  /** The number of rows that this rank receives from each rank of the axis, in the order of the ranks. */
  readonly received: readonly number[];
  readonly #sentTensor: Tensor;
  readonly #receivedTensor: Tensor;

  private constructor(axis: string, sent: readonly number[], received: readonly number[]) {
    this.#axis = axis;
    this.sent = sent;
    this.received = received;
    this.#sentTensor = countsTensor(sent);
    this.#receivedTensor = countsTensor(received);
  }

  /** See `exchangeRows`. */
  static async agree(axis: string, counts: readonly number[] | Tensor): Promise<RowExchange> {
    const { size } = axisOf(currentSession().mesh, axis);
    const sent = counts instanceof Tensor ? Array.from(await counts.data(), Number) : [...counts];
    const isCount = (count: number): boolean => Number.isSafeInteger(count) && count >= 0;
    if (sent.length !== size || !sent.every(isCount)) {
      throw new ConfigError(
        {
          asked: `to send ${sent.join(', ')} rows to the ranks of '${axis}'`,
          found: `${size} ranks`,
          todo: 'Give a whole number of rows, 0 or more, for each rank',
        },
        { axis, size, counts: sent },
      );
    }
    const received = await allToAll(countsTensor(sent), axis, 0, 0).data();
    return new RowExchange(axis, sent, Array.from(received, Number));
  }

  /**
   * varying -> varying: sends the first rows to rank 0, the next ones to rank 1, and so on. Received rows are
   * in the order of the ranks. Shape: [sum of sent, ..] -> [sum of received, ..].
   */
  send(x: Tensor): Tensor {
    return this.#move(x, this.sent, this.received, this.#sentTensor, this.#receivedTensor);
  }

  /** Sends received rows back to where they came from. Shape: [sum of received, ..] -> [sum of sent, ..]. */
  sendBack(x: Tensor): Tensor {
    return this.#move(x, this.received, this.sent, this.#receivedTensor, this.#sentTensor);
  }

  #move(
    x: Tensor,
    from: readonly number[],
    to: readonly number[],
    fromTensor: Tensor,
    toTensor: Tensor,
  ): Tensor {
    const [rows] = x.shape;
    if (rows !== sumOf(from)) {
      throw new ShapeError(
        {
          asked: `to exchange the rows of a tensor of shape ${formatShape(x.shape)}`,
          found: `the ranks of '${this.#axis}' agreed on ${sumOf(from)} rows (${from.join(', ')})`,
          todo: 'Give as many rows as were agreed on, or agree anew with exchangeRows()',
        },
        { shape: x.shape, counts: from },
      );
    }
    const axis = axisOf(currentSession().mesh, this.#axis);
    const shape = [sumOf(to), ...x.shape.slice(1)];
    return new Tensor(allToAllRows(x.node, axis, fromTensor.node, toTensor.node, shape));
  }
}

/**
 * Prepares an exchange of rows between the ranks of an axis. The ranks tell each other how many rows each of them sends
 * to each, so all of them must call and await this. The result then sends the rows of any number of tensors, with
 * gradients. The numbers of rows may change from step to step without a new compilation. Throws ConfigError for counts
 * that are not a whole number, 0 or more, for each rank. Shape: counts [ranks of the axis].
 */
export function exchangeRows(
  axis: string,
  counts: readonly number[] | Tensor,
): Promise<RowExchange> {
  return RowExchange.agree(axis, counts);
}

/** The numbers of rows that this rank sends to each rank of an axis and receives from each. The run computes them. */
interface RowCounts {
  /** Shape: i32 [ranks of the axis]. */
  readonly sent: Tensor;
  /** Shape: i32 [ranks of the axis]. */
  readonly received: Tensor;
}

/**
 * varying -> varying: sends rows to the ranks of an axis and receives rows from them, in the order of the ranks. Rows
 * of x after the ones to send stay, and the received rows are followed by zeros up to `rows`. Gradients go the other
 * way.
 * Shape: x [M, ..] -> [rows, ..].
 */
export function sendRows(x: Tensor, axis: string, counts: RowCounts, rows: number): Tensor {
  const { sent, received } = counts;
  const place = axisOf(currentSession().mesh, axis);
  const shape = [rows, ...x.shape.slice(1)];
  return new Tensor(allToAllRows(x.node, place, sent.node, received.node, shape));
}

/**
 * The rows of all ranks of an axis, in the order of the ranks. Each rank can have a different number of rows; the
 * ranks first tell each other the numbers. varying -> varying: all ranks get the same rows, and the gradient of a row
 * is the sum of the gradients of its copies. Shape: [M of this rank, ..] -> [sum of M, ..].
 */
export async function allGatherRows(x: Tensor, axis: string): Promise<Tensor> {
  const { size } = axisOf(currentSession().mesh, axis);
  const [rows = 0] = x.shape;
  const everyone = Array.from({ length: size });
  const exchange = await exchangeRows(
    axis,
    everyone.map(() => rows),
  );
  return exchange.send(
    concat(
      everyone.map(() => x),
      0,
    ),
  );
}

function countsTensor(counts: readonly number[]): Tensor {
  return fromData(Int32Array.from(counts), [counts.length], 'i32');
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
