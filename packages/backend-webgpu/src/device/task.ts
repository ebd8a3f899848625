import type { Shape } from '@shardwise/core/spec';

/** What a device was given to compute, for messages: the largest of some kernels. */
export interface Task {
  /** The operations of the kernel. */
  readonly kernel: string;
  /** The shape of what it makes. */
  readonly shape: Shape;
  /** Bytes that it reads and writes. */
  readonly byteLength: number;
  /** Kernels that were submitted with it. */
  readonly others: number;
}

/** As a message names it. */
export function describeTask({ kernel, shape, byteLength, others }: Task): string {
  const more = others === 0 ? '' : `, and ${others} other kernel${others === 1 ? '' : 's'}`;
  return `${kernel} to [${shape.join(', ')}], which reads and writes ${byteLength} bytes${more}`;
}

/** As fields of an error. */
export function fieldsOf({ kernel, shape, byteLength }: Task): Readonly<Record<string, unknown>> {
  return { kernel, shape, byteLength };
}
