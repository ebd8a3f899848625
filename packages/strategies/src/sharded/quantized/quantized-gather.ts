import {
  allGather,
  inRegion,
  type Node,
  noGrad,
  type Shape,
  type Tensor,
  withCollectiveName,
} from '@shardwise/core/extend';
import { dequantizeRows, quantizeRows } from './quantize-rows.ts';

/** A message of a gather, and how ranks that have parts of it gather it again. */
export interface GatherMessage {
  /** What arrives, with the parts of all ranks along dim 0. */
  readonly node: Node;
  /** Gathers a part along dim 0 over another axis. */
  readonly again: (part: Tensor, axis: string) => Tensor;
}

/**
 * Gathers parts of a parameter in 8 bits. The rank's own part is rounded like those of others, so that all ranks compute
 * with the same values. What a rank keeps for the backward pass is what has arrived, in 8 bits.
 */
export class QuantizedGather {
  readonly #name: string;
  readonly #messages = new WeakMap<Node, readonly GatherMessage[]>();

  /** `name` is that of its collectives. */
  constructor(name: string) {
    this.#name = name;
  }

  /** Shape: part -> `padded`, the shape of all parts. */
  gather(part: Tensor, axis: string, padded: Shape): Tensor {
    return noGrad(() => {
      // Outside of the region that the backward pass makes again, so that gathering codes ahead does not begin that region.
      const own = inRegion(null, () => quantizeRows(part.to('f32').reshape([1, part.numel]), 8));
      const codes = this.#gathers(own.codes, axis, this.#name);
      const scales = this.#gathers(own.scales, axis, `the scales of ${this.#name}`);
      const rows = dequantizeRows({ codes: codes.all, scales: scales.all }, part.numel, 8);
      const whole = rows.reshape(padded).to(part.dtype);
      this.#messages.set(whole.node, [codes.message, scales.message]);
      return whole;
    });
  }

  /** The messages of a result of `gather`. */
  messagesOf(whole: Node): readonly GatherMessage[] {
    return this.#messages.get(whole) ?? [];
  }

  #gathers(part: Tensor, axis: string, name: string): { all: Tensor; message: GatherMessage } {
    const again = (slice: Tensor, over: string): Tensor =>
      withCollectiveName(name, () => noGrad(() => allGather(slice, over, 0)));
    const all = again(part, axis);
    return { all, message: { node: all.node, again } };
  }
}
