import { describe, expect, it } from 'vitest';
import { findingLines } from '../src/doctor/finding-lines.ts';
import { hideSecrets } from '../src/doctor/hide-secrets.ts';
import { worstLevel } from '../src/doctor/host/finding.ts';
import { probes, runProbes } from '../src/doctor/host/run-probes.ts';
import { coloured, uncoloured } from '../src/terminal/paint.ts';
import { fails, GIB, type Machine, machine, works } from './doctor-machine.ts';

describe('the doctor', () => {
  it('finds nothing to do on a healthy host', async () => {
    const findings = await runProbes(machine());
    expect(findings.filter(({ level }) => level !== 'green')).toEqual([]);
    expect(findings.map(({ name }) => name)).toEqual(Object.keys(probes));
    expect(worstLevel(findings)).toBe('green');
  });

  it.each<[name: string, level: 'yellow' | 'red', found: RegExp, todo: RegExp, given: Machine]>([
    ['Node', 'red', /v22\.1\.0/, /24\.9/, { node: 'v22.1.0' }],
    ['Node', 'red', /v24\.8\.3/, /24\.9/, { node: 'v24.8.3' }],
    [
      'memory',
      'red',
      /205 MiB free of 32/,
      /fewer ranks/,
      { files: { '/proc/meminfo': 'MemAvailable:  209920 kB' } },
    ],
    [
      'memory',
      'red',
      /256 MiB free of 4\.00 GiB, a limit/,
      /Raise the memory limit/,
      {
        files: {
          '/proc/self/cgroup': '0::/pod/container\n',
          '/sys/fs/cgroup/pod/memory.max': `${4 * GIB}\n`,
          '/sys/fs/cgroup/pod/container/memory.max': 'max\n',
          '/sys/fs/cgroup/pod/memory.current': `${3.75 * GIB}\n`,
        },
      },
    ],
    [
      'memory',
      'yellow',
      /1\.00 GiB free of 2\.00 GiB, a limit/,
      /fewer ranks/,
      {
        files: {
          '/proc/self/cgroup': '5:memory:/job\n4:cpu,cpuacct:/job\n',
          '/sys/fs/cgroup/memory/job/memory.limit_in_bytes': `${2 * GIB}\n`,
          '/sys/fs/cgroup/memory/job/memory.usage_in_bytes': `${GIB}\n`,
        },
      },
    ],
    [
      'CPU limit',
      'yellow',
      /1\.5 of 8 cores/,
      /at most 1 rank here/,
      { files: { '/sys/fs/cgroup/cpu.max': '150000 100000\n' } },
    ],
    [
      'CPU limit',
      'yellow',
      /4 of 8 cores/,
      /at most 4 ranks here/,
      {
        files: {
          '/proc/self/cgroup': '4:cpu,cpuacct:/job\n',
          '/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us': '400000\n',
        },
      },
    ],
    [
      'huge pages',
      'yellow',
      /^never$/,
      /echo madvise/,
      { files: { '/sys/kernel/mm/transparent_hugepage/enabled': 'always madvise [never]\n' } },
    ],
    [
      '/dev/shm',
      'yellow',
      /64\.0 MiB/,
      /--shm-size/,
      { fileSystem: () => ({ totalBytes: 64 * 2 ** 20, freeBytes: 64 * 2 ** 20 }) },
    ],
    [
      'limits',
      'yellow',
      /open files 256/,
      /ulimit -n 65536/,
      { files: { '/proc/self/limits': 'Max open files            256      4096     files' } },
    ],
    [
      'limits',
      'yellow',
      /address space 4\.0+ GiB, locked memory unknown/,
      /ulimit -v unlimited/,
      {
        files: { '/proc/self/limits': 'Max address space         4294967296   4294967296   bytes' },
      },
    ],
    [
      'InfiniBand',
      'yellow',
      /mlx5_0\/1 DOWN, 40 Gb\/sec \(4X QDR\), InfiniBand/,
      /cable/,
      {
        files: {
          '/sys/class/infiniband/mlx5_0/ports/1/state': '1: DOWN\n',
          '/sys/class/infiniband/mlx5_0/ports/1/rate': '40 Gb/sec (4X QDR)\n',
          '/sys/class/infiniband/mlx5_0/ports/1/link_layer': 'InfiniBand\n',
        },
      },
    ],
    [
      'network',
      'yellow',
      /100 Mbit/,
      /1 Gbit/,
      { files: { '/sys/class/net/eth0/speed': '100\n' } },
    ],
    [
      'network',
      'yellow',
      /only the loopback/,
      /Connect the host/,
      { files: { '/sys/class/net/eth0/operstate': 'down\n' } },
    ],
    [
      'ports',
      'yellow',
      /29400 can't be used \(EADDRINUSE\)/,
      /--rdzv/,
      { portError: async () => 'EADDRINUSE' },
    ],
    ['clock', 'red', /^1970-01-01T00:00:00Z/, /Set the clock/, { now: () => 0 }],
    [
      'clock',
      'yellow',
      /read from hpet/,
      /echo tsc >/,
      {
        files: {
          '/sys/devices/system/clocksource/clocksource0/current_clocksource': 'hpet\n',
          '/sys/devices/system/clocksource/clocksource0/available_clocksource': 'hpet tsc \n',
        },
      },
    ],
    [
      'ONNX Runtime',
      'yellow',
      /GLIBC_2\.28/,
      /npm install/,
      { parts: { onnxruntime: fails('GLIBC_2.28 not found') } },
    ],
    [
      'SIMD and AMX',
      'yellow',
      /neither AVX-512/,
      /AVX2/,
      { parts: { 'machine-code': fails('the processor has neither AVX-512 nor AVX2') } },
    ],
    [
      'SIMD and AMX',
      'yellow',
      /AVX512-BF16; the processor has AMX/,
      /seccomp/,
      { files: { '/proc/cpuinfo': 'flags\t: amx_bf16 amx_tile\n' } },
    ],
    [
      'shared memory',
      'yellow',
      /koffi/,
      /TCP/,
      { parts: { 'shared-memory': fails('the package koffi is missing') } },
    ],
    [
      'MPI',
      'yellow',
      /Open MPI: undefined symbol/,
      /Repair/,
      { parts: { 'open-mpi': fails('undefined symbol: x') } },
    ],
    [
      'WebGPU',
      'yellow',
      /the kernel shows nvidia0, renderD128, but/,
      /libvulkan1/,
      { files: { '/dev/nvidia0': '', '/dev/dri/renderD128': '' } },
    ],
  ])('says of %s: %s', async (name, level, found, todo, given) => {
    const finding = (await runProbes(machine(given))).find((each) => each.name === name);
    expect(finding).toMatchObject({
      level,
      found: expect.stringMatching(found),
      todo: expect.stringMatching(todo),
    });
  });

  it('shows what there is where nothing is wrong', async () => {
    const findings = await runProbes(
      machine({
        files: {
          '/sys/devices/system/node/node0/cpulist': '0-3\n',
          '/sys/devices/system/node/node1/cpulist': '4-7\n',
          '/sys/class/infiniband/mlx5_0/ports/1/state': '4: ACTIVE\n',
          '/proc/self/limits':
            'Max locked memory         unlimited            unlimited            bytes',
        },
        parts: { mpich: works('MPICH Version: 4.2 (libmpich.so.12)'), webgpu: works('a GPU') },
      }),
    );
    const found = Object.fromEntries(findings.map((finding) => [finding.name, finding.found]));
    expect(found).toMatchObject({
      cores: '8 of A Processor; NUMA nodes 0: 0-3, 1: 4-7',
      InfiniBand: 'mlx5_0/1 ACTIVE',
      MPI: 'MPICH Version: 4.2 (libmpich.so.12)',
      WebGPU: 'a GPU',
    });
    expect(worstLevel(findings)).toBe('green');
  });

  it('finds nothing wrong on a system that has none of these files', async () => {
    const bare = machine({
      platform: 'darwin',
      read: () => undefined,
      list: () => [],
      fileSystem: () => undefined,
    });
    expect((await runProbes(bare)).filter(({ level }) => level !== 'green')).toEqual([]);
  });

  it('goes on when a probe throws, and when one never answers', async () => {
    const findings = await runProbes(machine(), {
      of: {
        broken: () => {
          throw new Error('EIO');
        },
        silent: () => new Promise<never>(() => undefined),
        Node: probes['Node'] ?? (() => Promise.reject(new Error('no such probe'))),
      },
      limitMs: 10,
    });
    expect(findings.map(({ name, level }) => [name, level])).toEqual([
      ['broken', 'yellow'],
      ['silent', 'yellow'],
      ['Node', 'green'],
    ]);
    expect(findings[0]?.found).toBe('could not be looked at: EIO');
    expect(findings[1]?.found).toBe('could not be looked at: no answer within 0.01 s');
  });

  it('shows no value of a variable that may be secret', () => {
    const environment = {
      HF_TOKEN: 'hf_abcdef',
      SHARDWISE_SECRET: 'hf_abcdef-and-more',
      HTTPS_PROXY: 'http://user:word@proxy',
      HOME: '/home/me',
    };
    const found = 'hf_abcdef-and-more, hf_abcdef, http://user:word@proxy in /home/me';
    const [hidden] = hideSecrets(
      [
        {
          name: 'MPI',
          level: 'yellow',
          found,
          todo: found,
          figures: { text: found, list: [found], bytes: 3 },
        },
      ],
      environment,
    );
    const shown = '$SHARDWISE_SECRET, $HF_TOKEN, $HTTPS_PROXY in /home/me';
    expect(hidden).toEqual({
      name: 'MPI',
      level: 'yellow',
      found: shown,
      todo: shown,
      figures: { text: shown, list: [shown], bytes: 3 },
    });
  });
});

describe('the lines of the doctor', () => {
  const findings = [
    { name: 'Node', level: 'green', found: 'v24.21.0 on linux-x64' },
    {
      name: 'huge pages',
      level: 'yellow',
      found: 'never',
      todo: 'As root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled',
    },
    {
      name: 'memory',
      level: 'red',
      found: `${'x'.repeat(90)} \u001B[2J`,
      todo: 'End other programs',
    },
  ] as const;

  it('fit into 80 columns and need no colour', () => {
    const lines = findingLines(findings, 80, uncoloured);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(`\n${lines.join('\n')}`).toMatchInlineSnapshot(`
      "
      ✓ Node          v24.21.0 on linux-x64
      ! huge pages    never
                      → As root: echo madvise >
                        /sys/kernel/mm/transparent_hugepage/enabled
      ✗ memory        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                      xxxxxxxxxxxxxxxxxxxxxxxxxxx �[2J
                      → End other programs

      ✗ 1 green, 1 yellow, 1 red: training fails here; see the lines with ✗"
    `);
  });

  it('have the colours of their levels, and no escape codes of what was found', () => {
    const text = findingLines(findings, 80, coloured).join('\n');
    expect(text).toContain('\u001B[31m✗\u001B[39m memory');
    expect(text).not.toContain('\u001B[2J');
  });
});
