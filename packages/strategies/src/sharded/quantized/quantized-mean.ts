import {
  allToAll,
  declareAxisTypes,
  noGrad,
  type Tensor,
  withCollectiveName,
} from '@shardwise/core/extend';
import {
  dequantizeRows,
  type QuantizedBits,
  quantizedBytes,
  quantizeRows,
} from './quantize-rows.ts';

/** How gradients are averaged in few bits. */
export interface QuantizedReduction {
  readonly bits: QuantizedBits;
  /**
   * The number of neighbouring ranks that are on one host. They average first, and then ranks of different hosts, which send
   * each other 1 / ranksPerHost of the bytes.
   */
  readonly ranksPerHost: number;
}

/** An exchange between ranks of an axis, in which each rank sends rows to each of them. */
interface Hop {
  readonly axis: string;
  readonly ranks: number;
  /** The rows that a rank sends to each of the others, and to itself. */
  readonly rows: number;
}

/** The exchanges of a mean over `size` ranks of an axis, in their order. */
function hopsOf({ ranksPerHost }: QuantizedReduction, axis: string, size: number): readonly Hop[] {
  if (ranksPerHost === 1 || ranksPerHost === size) return [{ axis, ranks: size, rows: 1 }];
  const hosts = size / ranksPerHost;
  return [
    { axis: insideHost(axis, ranksPerHost), ranks: ranksPerHost, rows: hosts },
    { axis: acrossHosts(axis, ranksPerHost), ranks: hosts, rows: 1 },
  ];
}

/** The bytes that a rank sends in each exchange, its own rows included, for a part of `elements` elements. */
export function quantizedMeanBytes(
  reduction: QuantizedReduction,
  axis: string,
  size: number,
  elements: number,
): readonly { readonly axis: string; readonly bytes: number }[] {
  return hopsOf(reduction, axis, size).map((hop) => {
    return {
      axis: hop.axis,
      bytes: hop.ranks * hop.rows * quantizedBytes(elements, reduction.bits),
    };
  });
}

/**
 * Each rank's part of the mean over the ranks of an axis. Every exchange rounds the rows that it sends to codes of few bits;
 * sums are f32. `name` is that of its collectives. Shape: padded [size * r, ..] -> [r, ..].
 */
export function quantizedMean(
  padded: Tensor,
  reduction: QuantizedReduction,
  { axis, size, name }: { readonly axis: string; readonly size: number; readonly name: string },
): Tensor {
  return noGrad(() => {
    const [first = 0, ...others] = padded.shape;
    const elements = padded.numel / size;
    const hops = hopsOf(reduction, axis, size);
    let rows = asTerm(padded, axis).to('f32').reshape([size, elements]);
    for (const [at, { axis: over, ranks, rows: count }] of hops.entries()) {
      // Rows are ordered by the rank to which they go in this exchange.
      const bundles = rows.reshape([count, ranks, elements]).permute([1, 0, 2]);
      const own = quantizeRows(bundles.reshape([ranks * count, elements]), reduction.bits);
      const send = (what: Tensor, of: string): Tensor =>
        withCollectiveName(of, () => allToAll(what, over, 0, 0));
      const label = at === 0 ? name : `${name} between hosts`;
      const codes = send(own.codes, label);
      const scales = send(own.scales, `the scales of ${label}`);
      const arrived = dequantizeRows({ codes, scales }, elements, reduction.bits);
      rows = arrived.reshape([ranks, count, elements]).mean(0);
    }
    const mean = rows.reshape([first / size, ...others]).to(padded.dtype);
    return declareAxisTypes(mean, Object.fromEntries(hops.flatMap(withoutType(axis))));
  });
}

/** Withdraws what is known of the mean on axes that the mesh has only for the exchanges. */
function withoutType(axis: string): (hop: Hop) => [string, null][] {
  return ({ axis: over }) => (over === axis ? [] : [[over, null]]);
}

/** The rank's own term of a sum as a value, which is rounded before the terms are summed. Shape: N -> N. */
function asTerm(x: Tensor, axis: string): Tensor {
  if (x.node.axisTypes?.on(axis) !== 'partial') return x;
  return declareAxisTypes(declareAxisTypes(x.detach(), { [axis]: null }), { [axis]: 'varying' });
}

/** The name of the groups of neighbouring ranks. */
export function insideHost(axis: string, ranksPerHost: number): string {
  return `${axis}/${ranksPerHost}`;
}

/** The name of the groups of ranks that have the same place on different hosts. */
export function acrossHosts(axis: string, ranksPerHost: number): string {
  return `${axis}/hosts of ${ranksPerHost}`;
}
