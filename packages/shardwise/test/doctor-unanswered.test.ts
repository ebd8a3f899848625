import { describe, expect, it } from 'vitest';
import type { Finding } from '../src/doctor/host/finding.ts';
import type { NativeAnswer, NativePart } from '../src/doctor/host/native-part.ts';
import { runProbes } from '../src/doctor/host/run-probes.ts';
import { fails, type Machine, machine, works } from './doctor-machine.ts';

const ended: NativeAnswer = {
  available: false,
  reason: 'it did not answer within 15 s',
  endedAfterMs: 15_000,
};

async function found(name: string, given: Machine): Promise<Finding | undefined> {
  const findings = await runProbes(machine(given));
  return findings.find((finding) => finding.name === name);
}

const parts: readonly (readonly [name: string, part: NativePart, called: string])[] = [
  ['ONNX Runtime', 'onnxruntime', 'ONNX Runtime'],
  ['SIMD and AMX', 'machine-code', 'SIMD and AMX'],
  ['shared memory', 'shared-memory', 'shared memory'],
  ['MPI', 'open-mpi', 'Open MPI'],
  ['MPI', 'mpich', 'MPICH'],
];

describe('of a probe that its time limit has ended, the doctor', () => {
  it.each(parts)(
    'says that the host is busy, and nothing of %s (%s)',
    async (name, part, called) => {
      const finding = await found(name, { cores: 2, load: () => 21.25, parts: { [part]: ended } });
      expect(finding).toMatchObject({
        level: 'yellow',
        found: `is unknown: the probe of ${called} was ended by its time limit of 15 s, because this host is busy (a load of 21.3 on 2 cores)`,
        todo: 'Run shardwise doctor again when the host has less to do',
      });
    },
  );

  it.each(parts)(
    'says that the part hangs if the host has nothing else to do: %s (%s)',
    async (name, part, called) => {
      const finding = await found(name, { cores: 2, load: () => 1.5, parts: { [part]: ended } });
      expect(finding).toMatchObject({
        level: 'yellow',
        found: `is unknown: the probe of ${called} was ended by its time limit of 15 s, although this host is not busy`,
        todo: `Run shardwise doctor again. If the probe is ended again, what it loads hangs: repair or remove it`,
      });
    },
  );

  it('speaks of a GPU if the kernel shows one, and otherwise of none', async () => {
    const busy = { load: () => 30, parts: { webgpu: ended } };
    expect(await found('WebGPU', { ...busy, files: { '/dev/nvidia0': '' } })).toMatchObject({
      level: 'yellow',
      found: expect.stringContaining('because this host is busy (a load of 30.0 on 8 cores)'),
      figures: { devices: ['nvidia0'] },
    });
    expect(await found('WebGPU', busy)).toMatchObject({
      level: 'green',
      found: 'no GPU; the CPU computes (it did not answer within 15 s)',
    });
  });

  it('still names a library that is broken, and one that loads', async () => {
    const broken = { 'open-mpi': fails('undefined symbol: x'), mpich: ended };
    expect(await found('MPI', { parts: broken })).toMatchObject({
      found: 'Open MPI: undefined symbol: x',
    });
    const loads = { 'open-mpi': works('Open MPI v4.1'), mpich: ended };
    expect(await found('MPI', { load: () => 30, parts: loads })).toMatchObject({
      level: 'yellow',
      figures: { loaded: ['Open MPI v4.1'] },
    });
  });
});
