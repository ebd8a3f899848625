import type { ProcessGroup, TypedBytes } from '@shardwise/core/spec';

/** Rank 0 of several ranks that all have the same values. Nothing is sent, and nobody waits. */
export class DryGroup implements ProcessGroup {
  readonly specificationVersion = 1;
  readonly rank = 0;
  readonly size: number;

  constructor(size: number) {
    this.size = size;
  }

  async allReduce(): Promise<void> {}
  async broadcast(): Promise<void> {}
  async reduce(): Promise<void> {}
  async gather(): Promise<void> {}
  async scatter(): Promise<void> {}
  async barrier(): Promise<void> {}
  async send(): Promise<void> {}
  async recv(): Promise<void> {}
  close(): void {}

  async allGather(input: TypedBytes, output: TypedBytes): Promise<void> {
    const { byteLength } = input.bytes;
    for (let rank = 0; rank < this.size; rank++) output.bytes.set(input.bytes, rank * byteLength);
  }

  async reduceScatter(input: TypedBytes, output: TypedBytes): Promise<void> {
    output.bytes.set(input.bytes.subarray(0, output.bytes.byteLength));
  }

  async allToAll(input: TypedBytes, output: TypedBytes): Promise<void> {
    output.bytes.set(input.bytes);
  }

  async split(): Promise<ProcessGroup> {
    return this;
  }
}
