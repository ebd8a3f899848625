import type { Shape } from '@shardwise/core/spec';

/** The largest kernel of a submission, which messages name. */
export interface Task {
  /** The operations of the kernel. */
  readonly kernel: string;
  /** The shape of the value that it makes. */
  readonly shape: Shape;
  /** The bytes that it reads and writes. */
  readonly byteLength: number;
  /** The number of other kernels that were submitted with it. */
  readonly others: number;
}

/** The task in the words of a message. */
export function describeTask({ kernel, shape, byteLength, others }: Task): string {
  const more = others === 0 ? '' : `, and ${others} other kernel${others === 1 ? '' : 's'}`;
  return `${kernel} to [${shape.join(', ')}], which reads and writes ${byteLength} bytes${more}`;
}

/** The task as fields of an error. */
export function fieldsOf({ kernel, shape, byteLength }: Task): Readonly<Record<string, unknown>> {
  return { kernel, shape, byteLength };
}
