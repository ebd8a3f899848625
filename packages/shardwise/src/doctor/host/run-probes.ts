import type { Finding } from './finding.ts';
import { devShmProbe, hugePagesProbe, limitsProbe, memoryProbe } from './memory-probes.ts';
import { infiniBandProbe, networkProbe, portsProbe } from './network-probes.ts';
import { clockProbe, coresProbe, cpuLimitProbe } from './processor-probes.ts';
import {
  gpuProbe,
  machineCodeProbe,
  mpiProbe,
  nodeProbe,
  onnxRuntimeProbe,
  sharedMemoryProbe,
} from './program-probes.ts';
import type { Readings } from './readings.ts';

type Probe = (readings: Readings) => Finding | Promise<Finding>;

/** The probes of one host, in the order in which they are shown. */
export const probes: Readonly<Record<string, Probe>> = {
  Node: nodeProbe,
  cores: coresProbe,
  'CPU limit': cpuLimitProbe,
  'SIMD and AMX': machineCodeProbe,
  'ONNX Runtime': onnxRuntimeProbe,
  WebGPU: gpuProbe,
  memory: memoryProbe,
  'huge pages': hugePagesProbe,
  'shared memory': sharedMemoryProbe,
  '/dev/shm': devShmProbe,
  limits: limitsProbe,
  network: networkProbe,
  InfiniBand: infiniBandProbe,
  MPI: mpiProbe,
  ports: portsProbe,
  clock: clockProbe,
};

/** Native parts end by themselves before this. */
const LIMIT_MS = 40_000;

/**
 * Runs probes and returns what they find, in their order. A probe that throws or takes longer than the limit is a
 * yellow finding, and the others are not disturbed.
 */
export async function runProbes(
  readings: Readings,
  {
    of = probes,
    limitMs = LIMIT_MS,
  }: { of?: Readonly<Record<string, Probe>>; limitMs?: number } = {},
): Promise<readonly Finding[]> {
  return Promise.all(
    Object.entries(of).map(async ([name, probe]): Promise<Finding> => {
      const { promise, resolve } = Promise.withResolvers<Finding>();
      const limit = setTimeout(
        () => resolve(unknownFinding(name, `no answer within ${limitMs / 1000} s`)),
        limitMs,
      );
      const found = Promise.try(probe, readings).catch((error: unknown) =>
        unknownFinding(name, error instanceof Error ? error.message : String(error)),
      );
      return Promise.race([found, promise]).finally(() => clearTimeout(limit));
    }),
  );
}

function unknownFinding(name: string, reason: string): Finding {
  const todo = 'Nothing is known of this part. Look at it by hand';
  return { name, level: 'yellow', found: `could not be looked at: ${reason}`, todo };
}
