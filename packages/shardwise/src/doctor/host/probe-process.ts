import { cpu, onnxRuntimeLibrary } from '@shardwise/backend-cpu';
import { mpiAvailability, shmAvailability } from '@shardwise/collectives/node';
import type { NativeAnswer, NativePart } from './native-part.ts';

// Tries one part of native code, says whether it works, and is ended.

const SMALL_BYTES = 1 << 20;

const answers: Readonly<Record<NativePart, () => Promise<NativeAnswer>>> = {
  onnxruntime: async () => ({ available: true, found: await onnxRuntimeLibrary() }),
  'machine-code': async () => {
    const { products } = await cpu({ byteLength: SMALL_BYTES, products: 'own' });
    if (products.by !== 'own') return { available: false, reason: products.reason };
    const { f32, bf16 } = products.instructions;
    return { available: true, found: f32 === bf16 ? f32 : `${f32} and ${bf16}` };
  },
  'shared-memory': async () => {
    const shm = shmAvailability();
    return shm.available ? { available: true, found: 'memory of processes' } : shm;
  },
  'open-mpi': async () => mpiAnswer('libmpi.so.40'),
  mpich: async () => {
    const answer = mpiAnswer('libmpich.so.12');
    return answer.available ? answer : mpiAnswer('libmpi.so.12');
  },
  webgpu: async () => {
    const { webgpu } = await import('@shardwise/backend-webgpu');
    return { available: true, found: (await webgpu({ memoryBytes: SMALL_BYTES })).description };
  },
};

/** Loads the library of this name, whatever library the user's environment names. */
function mpiAnswer(library: string): NativeAnswer {
  process.env['SHARDWISE_MPI_LIBRARY'] = library;
  const mpi = mpiAvailability();
  return mpi.available ? { available: true, found: `${mpi.version} (${mpi.library})` } : mpi;
}

const part = process.argv[2];
const answer = Object.entries(answers).find(([name]) => name === part)?.[1];
const said = await answer?.().catch((error: unknown): NativeAnswer => ({
  available: false,
  reason: error instanceof Error ? error.message : String(error),
}));
// The open channel keeps the process until it is ended: some drivers crash when they are unloaded.
process.on('message', () => undefined);
process.send?.(said);
