import type { Backend, DeviceBuffer, Executable } from '@shardwise/core/spec';
import { f32, matmul, programOf } from './support.ts';

const SIDE = 512;

export interface LongRun {
  readonly executable: Executable;
  readonly inputs: readonly DeviceBuffer[];
  readonly outputs: readonly DeviceBuffer[];
}

/** Prepares a chain of products that takes long and runs in one session: out = input^(2^squarings). */
export async function prepareLongRun(backend: Backend, squarings: number): Promise<LongRun> {
  const type = f32(SIDE, SIDE);
  const executable = await backend.compile(
    programOf({
      inputs: [type],
      instructions: Array.from({ length: squarings }, (_, id) => matmul(id, id, type)),
      outputs: [squarings],
    }),
  );
  const byteLength = SIDE * SIDE * 4;
  return {
    executable,
    inputs: [backend.alloc(byteLength)],
    outputs: [backend.alloc(byteLength)],
  };
}
