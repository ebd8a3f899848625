import { Parameter, type Tensor } from '@shardwise/core';

/** A parameter of which this rank computes with one part, and never holds the whole. */
export abstract class CutParameter extends Parameter {
  /** The whole of something that lies as this parameter does, such as its gradient. A collective. Shape: part -> whole. */
  abstract whole(part?: Tensor): Tensor;
}
