import type { Finding } from './finding.ts';
import type { NativeAnswer } from './native-part.ts';
import type { Readings } from './readings.ts';

// Node, the native code that ranks load, and the GPUs that they see.

const LEAST_NODE = [24, 9] as const;

export function nodeProbe({ node, platform, architecture, kernel }: Readings): Finding {
  const [, major = 0, minor = 0] = (/^v(\d+)\.(\d+)/.exec(node) ?? []).map(Number);
  const [leastMajor, leastMinor] = LEAST_NODE;
  const isOld = major < leastMajor || (major === leastMajor && minor < leastMinor);
  return {
    name: 'Node',
    found: `${node} on ${platform}-${architecture}, kernel ${kernel}`,
    figures: { node, platform, architecture, kernel },
    ...(isOld
      ? { level: 'red', todo: `Install Node ${LEAST_NODE.join('.')} or later` }
      : { level: 'green' }),
  };
}

export async function onnxRuntimeProbe(readings: Readings): Promise<Finding> {
  const name = 'ONNX Runtime';
  const answer = await readings.native('onnxruntime');
  if (answer.available) return { name, level: 'green', found: 'loads' };
  const unknown = unanswered(name, readings, answer);
  if (unknown !== undefined) return unknown;
  return {
    name,
    level: 'yellow',
    found: `does not load, so WebAssembly computes alone: ${firstLine(answer.reason)}`,
    todo: 'Run npm install on this machine, without --omit=optional. On Linux it needs glibc',
  };
}

export async function machineCodeProbe(readings: Readings): Promise<Finding> {
  const name = 'SIMD and AMX';
  const answer = await readings.native('machine-code');
  if (!answer.available) {
    const unknown = unanswered(name, readings, answer);
    return (
      unknown ?? {
        name,
        level: 'yellow',
        found: `no machine code for products: ${firstLine(answer.reason)}`,
        todo: 'Use a processor with AVX2, or on Arm one with BF16. Otherwise ONNX Runtime or WebAssembly computes, slower',
      }
    );
  }
  const hasTiles = /^flags\s*:.*\bamx_bf16\b/m.test(readings.read('/proc/cpuinfo') ?? '');
  const usesTiles = answer.found.includes('AMX');
  const figures = { instructions: answer.found, amx: usesTiles };
  const found = `products by ${answer.found}`;
  if (!hasTiles || usesTiles) return { name, level: 'green', found, figures };
  return {
    name,
    level: 'yellow',
    found: `${found}; the processor has AMX, but this process may not use it`,
    todo: 'Allow arch_prctl in the seccomp profile of the container',
    figures,
  };
}

export async function sharedMemoryProbe(readings: Readings): Promise<Finding> {
  const name = 'shared memory';
  const answer = await readings.native('shared-memory');
  if (answer.available)
    return { name, level: 'green', found: 'processes of this host share memory' };
  const unknown = unanswered(name, readings, answer);
  if (unknown !== undefined) return unknown;
  return {
    name,
    level: 'yellow',
    found: `processes can't share memory: ${firstLine(answer.reason)}`,
    todo: 'Ranks as threads share memory everywhere. Ranks as processes talk over TCP here',
  };
}

export async function mpiProbe(readings: Readings): Promise<Finding> {
  const name = 'MPI';
  const flavours = [
    ['Open MPI', await readings.native('open-mpi')],
    ['MPICH', await readings.native('mpich')],
  ] as const;
  const loaded = flavours.flatMap(([, answer]) => (answer.available ? [answer.found] : []));
  const broken = flavours.flatMap(([flavour, answer]) =>
    answer.available || isMissing(answer) || answer.endedAfterMs !== undefined
      ? []
      : [`${flavour}: ${firstLine(answer.reason)}`],
  );
  const figures = { loaded, broken };
  if (broken.length > 0) {
    const found = [...loaded, ...broken].join('; ');
    const todo = 'Repair or remove the library that does not load. Only runs under mpirun need it';
    return { name, level: 'yellow', found, todo, figures };
  }
  const unknown = flavours.flatMap(([flavour, answer]) => {
    const ended = answer.available ? undefined : unanswered(name, readings, answer, flavour);
    return ended === undefined ? [] : [{ ...ended, figures }];
  });
  if (unknown[0] !== undefined) return unknown[0];
  const found =
    loaded.length === 0 ? 'none installed; only runs under mpirun need it' : loaded.join('; ');
  return { name, level: 'green', found, figures };
}

/** Whether a library isn't installed, or this system or installation has no way to load one. */
function isMissing(answer: NativeAnswer): boolean {
  return (
    !answer.available &&
    /No such file|not found|can't be loaded \(Cannot find|this is \w+/i.test(answer.reason)
  );
}

export async function gpuProbe(readings: Readings): Promise<Finding> {
  const { native, list } = readings;
  const name = 'WebGPU';
  const answer = await native('webgpu');
  if (answer.available) return { name, level: 'green', found: answer.found };
  const devices = [
    ...list('/dev').filter((file) => /^nvidia\d+$|^kfd$/.test(file)),
    ...list('/dev/dri').filter((file) => file.startsWith('renderD')),
  ];
  const figures = { devices };
  const reason = firstLine(answer.reason);
  if (devices.length === 0) {
    return { name, level: 'green', found: `no GPU; the CPU computes (${reason})`, figures };
  }
  const unknown = unanswered(name, readings, answer);
  if (unknown !== undefined) return { ...unknown, figures };
  return {
    name,
    level: 'yellow',
    found: `the kernel shows ${devices.join(', ')}, but WebGPU has no device: ${reason}`,
    todo: 'Install the package webgpu, the Vulkan loader (libvulkan1) and the driver of the GPU, and join the group of the device (render or video)',
    figures,
  };
}

/**
 * What is said of a part whose probe was ended by its time limit: on a busy host this means nothing. Undefined if the
 * probe has answered.
 */
function unanswered(
  name: string,
  { load, cores }: Readings,
  { endedAfterMs }: Extract<NativeAnswer, { available: false }>,
  part: string = name,
): Finding | undefined {
  if (endedAfterMs === undefined) return undefined;
  const busy = load();
  const ended = `is unknown: the probe of ${part} was ended by its time limit of ${endedAfterMs / 1000} s`;
  if (busy <= cores) {
    const todo = `Run shardwise doctor again. If the probe is ended again, what it loads hangs: repair or remove it`;
    return { name, level: 'yellow', found: `${ended}, although this host is not busy`, todo };
  }
  const found = `${ended}, because this host is busy (a load of ${busy.toFixed(1)} on ${cores} ${cores === 1 ? 'core' : 'cores'})`;
  return {
    name,
    level: 'yellow',
    found,
    todo: 'Run shardwise doctor again when the host has less to do',
  };
}

const MAX_REASON = 240;

function firstLine(reason: string): string {
  const [line = ''] = reason.split('\n', 1);
  return line.length > MAX_REASON ? `${line.slice(0, MAX_REASON)}…` : line;
}
