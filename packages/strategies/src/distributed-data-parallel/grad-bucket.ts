import { axisOf, concat, currentSession, type Tensor } from '@shardwise/core/extend';

export interface GradBucketOptions {
  readonly index: number;
  readonly isLast: boolean;
  readonly axis: string;
  readonly pass: number;
  readonly names: readonly string[];
  readonly parameters: readonly Tensor[];
  readonly gradients: readonly Tensor[];
}

/** Gradients of one dtype that are sent together, as a communication hook gets them (PyTorch's GradBucket). */
export class GradBucket {
  /**
   * The number of the bucket. Buckets are sent in the order of their numbers. All-reduces with the same number
   * share a message.
   */
  readonly index: number;
  /** Whether this is the last bucket of the backward pass. */
  readonly isLast: boolean;
  /** The mesh axis over which gradients are averaged. */
  readonly axis: string;
  /**
   * The number of the backward pass since the last update, from 1. It is 0 inside join, where ranks do not count passes
   * alike.
   */
  readonly pass: number;
  /** The parameters' names in the model. */
  readonly names: readonly string[];
  readonly parameters: readonly Tensor[];
  /**
   * The gradients of this rank's batch, including those of earlier passes inside noSync. Shapes: those of the
   * parameters.
   */
  readonly gradients: readonly Tensor[];
  #buffer: Tensor | null = null;

  constructor({ index, isLast, axis, pass, names, parameters, gradients }: GradBucketOptions) {
    this.index = index;
    this.isLast = isLast;
    this.axis = axis;
    this.pass = pass;
    this.names = names;
    this.parameters = parameters;
    this.gradients = gradients;
  }

  /** The number of ranks over which gradients are averaged. */
  get ranks(): number {
    return axisOf(currentSession().mesh, this.axis).size;
  }

  /** A copy of all gradients in a row. Shape: -> [elements of the bucket]. */
  get buffer(): Tensor {
    this.#buffer ??= concat(
      this.gradients.map((gradient) => gradient.reshape([gradient.numel])),
      0,
    );
    return this.#buffer;
  }

  /**
   * Cuts the result of `buffer` into gradients again. Shape: [elements of the bucket] -> those of the
   * parameters.
   */
  split(buffer: Tensor): Tensor[] {
    let start = 0;
    return this.gradients.map(({ numel, shape }) => {
      const part = buffer.slice(0, start, start + numel).reshape(shape);
      start += numel;
      return part;
    });
  }
}
