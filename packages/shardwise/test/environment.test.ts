import * as fc from 'fast-check';
import { ConfigError } from '@shardwise/core';
import { describe, expect, it } from 'vitest';
import { asNodeLaunch, asRankLaunch, type Launch } from '../src/environment/launch.ts';
import { detectLaunch } from '../src/environment/detect-launch.ts';
import { expandNodeList } from '../src/environment/slurm-node-list.ts';
import { expandTasksPerNode } from '../src/environment/slurm.ts';
import { withoutRankVariables } from '../src/environment/without-rank-variables.ts';
import { launchDumps } from './launch-dumps.ts';

const unsaid = { jobId: undefined, restartCount: undefined, maxRestarts: undefined };
const alone: Launch = { kind: 'alone' };

const launches: readonly (readonly [string, NodeJS.ProcessEnv, Launch])[] = [
  [
    'a rank of torchrun',
    launchDumps.torchrun,
    {
      kind: 'rank',
      launcher: 'torchrun',
      rank: 3,
      worldSize: 4,
      localRank: 1,
      localWorldSize: 2,
      nodeRank: 1,
      address: 'node0',
      port: 29_500,
      jobId: 'e4b3',
      restartCount: 1,
      maxRestarts: 3,
    },
  ],
  [
    "a rank of Open MPI's mpirun, whose NODE_RANK is no rank of a node",
    launchDumps.openMpi,
    {
      kind: 'rank',
      launcher: 'open-mpi',
      rank: 1,
      worldSize: 2,
      localRank: 1,
      localWorldSize: 2,
      nodeRank: undefined,
      address: '127.0.0.1',
      port: undefined,
      ...unsaid,
      jobId: '736624641',
    },
  ],
  [
    'a rank of hydra',
    launchDumps.hydra,
    {
      kind: 'rank',
      launcher: 'hydra',
      rank: 1,
      worldSize: 2,
      localRank: 1,
      localWorldSize: 2,
      nodeRank: undefined,
      address: '127.0.0.1',
      port: undefined,
      ...unsaid,
    },
  ],
  [
    'a task of srun: the first host of the step, and a port from the ids of job and step',
    launchDumps.srun,
    {
      kind: 'rank',
      launcher: 'slurm',
      rank: 3,
      worldSize: 5,
      localRank: 0,
      localWorldSize: 1,
      nodeRank: 1,
      address: 'gnode08',
      port: 20_000 + 41 + 2 * 1009,
      ...unsaid,
      jobId: '41.2',
    },
  ],
  ['the script of sbatch, which is no task', launchDumps.sbatch, alone],
  [
    "a pod of Kubeflow's Trainer",
    launchDumps.kubeflow,
    {
      kind: 'node',
      launcher: 'kubeflow',
      nodeRank: 1,
      minNodes: 2,
      maxNodes: 2,
      ranksPerNode: 4,
      address: 'job-node-0-0.job',
      port: 29_500,
      ...unsaid,
    },
  ],
  [
    'a pod of an elastic Kubeflow job, which learns its place later',
    { PET_NNODES: '1:4', PET_NPROC_PER_NODE: 'auto', PET_RDZV_ENDPOINT: 'job-0:29400' },
    {
      kind: 'node',
      launcher: 'kubeflow',
      nodeRank: undefined,
      minNodes: 1,
      maxNodes: 4,
      ranksPerNode: undefined,
      address: 'job-0',
      port: 29_400,
      ...unsaid,
    },
  ],
  [
    'a pod of a LeaderWorkerSet',
    launchDumps.leaderWorkerSet,
    {
      kind: 'node',
      launcher: 'leader-worker-set',
      nodeRank: 2,
      minNodes: 3,
      maxNodes: 3,
      ranksPerNode: undefined,
      address: 'set-0.set.default',
      port: undefined,
      ...unsaid,
    },
  ],
  [
    'a pod of an Indexed Job',
    launchDumps.kubernetes,
    {
      kind: 'node',
      launcher: 'kubernetes',
      nodeRank: 3,
      minNodes: 4,
      maxNodes: 4,
      ranksPerNode: undefined,
      address: 'job-0.service',
      port: 29_400,
      ...unsaid,
    },
  ],
  ['an Indexed Job of independent pods', { JOB_COMPLETION_INDEX: '3' }, alone],
  ['no launcher', { PATH: '/bin', HOME: '/root', RANK: '', WORLD_SIZE: ' ' }, alone],
];

const srun = launchDumps.srun;

/** The launcher that is detected when one launcher has started another. */
const nested: readonly (readonly [string, NodeJS.ProcessEnv, object])[] = [
  ['our ranks under mpirun', { ...launchDumps.openMpi, ...launchDumps.torchrun }, { rank: 3 }],
  [
    'mpirun in a Slurm step',
    { ...srun, ...launchDumps.openMpi },
    { launcher: 'open-mpi', rank: 1 },
  ],
  ['mpirun in a batch script', { ...launchDumps.sbatch, ...launchDumps.openMpi }, { rank: 1 }],
  [
    'hydra, whose proxies srun starts',
    { ...srun, SLURM_PROCID: '0', ...launchDumps.hydra },
    { launcher: 'hydra', rank: 1, worldSize: 2 },
  ],
  [
    'srun --mpi=pmi2, which sets two of the names of hydra',
    { ...srun, PMI_FD: '11', PMI_JOBID: '41.2', PMI_RANK: '3', PMI_SIZE: '5' },
    { launcher: 'slurm', rank: 3, localWorldSize: 1 },
  ],
  [
    'srun --mpi=pmix',
    { ...srun, PMIX_RANK: '3', PMIX_NAMESPACE: 'slurm.pmix.41.2' },
    { launcher: 'slurm', rank: 3 },
  ],
  ['srun in an Indexed Job', { ...launchDumps.kubernetes, ...srun }, { launcher: 'slurm' }],
  [
    "a Training Operator's pod, whose RANK is that of a pod",
    {
      ...launchDumps.kubeflow,
      RANK: '1',
      WORLD_SIZE: '2',
      MASTER_ADDR: 'job-0',
      MASTER_PORT: '23456',
    },
    { kind: 'node', launcher: 'kubeflow', ranksPerNode: 4 },
  ],
  [
    "torchrun in a Training Operator's pod",
    { ...launchDumps.kubeflow, ...launchDumps.torchrun },
    { kind: 'rank', rank: 3 },
  ],
  [
    'a job file that sets RANK, WORLD_SIZE and the address only: each rank alone on its host',
    { RANK: '1', WORLD_SIZE: '2', MASTER_ADDR: 'a', MASTER_PORT: '1' },
    { rank: 1, localRank: 0, localWorldSize: 1 },
  ],
  [
    'a job file that sets WORLD_SIZE and the address, and srun the rest',
    { ...srun, WORLD_SIZE: '5', MASTER_ADDR: 'login', MASTER_PORT: '7000' },
    { launcher: 'slurm', rank: 3, address: 'login', port: 7000 },
  ],
  [
    'mpirun over several hosts, which does not say where rank 0 is',
    { ...launchDumps.openMpi, OMPI_COMM_WORLD_SIZE: '4' },
    { worldSize: 4, address: undefined },
  ],
  [
    'an interactive shell of salloc, which is a step without tasks',
    { ...srun, SLURM_STEP_ID: '4294967290' },
    alone,
  ],
  [
    'a job that Slurm has started again',
    { ...srun, SLURM_RESTART_COUNT: '2' },
    { restartCount: 2 },
  ],
];

const refused: readonly (readonly [string, NodeJS.ProcessEnv, RegExp])[] = [
  ['RANK without WORLD_SIZE', { RANK: '0' }, /RANK: it is set, but WORLD_SIZE is not/],
  ['WORLD_SIZE without RANK', { WORLD_SIZE: '2' }, /WORLD_SIZE: it is set, but RANK is not/],
  [
    'no address',
    { RANK: '0', WORLD_SIZE: '2' },
    /RANK: it is set, but MASTER_ADDR and MASTER_PORT are not/,
  ],
  [
    'LOCAL_RANK without LOCAL_WORLD_SIZE',
    { RANK: '0', WORLD_SIZE: '1', LOCAL_RANK: '0' },
    /RANK: it is set, but LOCAL_WORLD_SIZE is not/,
  ],
  [
    'a rank beyond the world',
    { ...launchDumps.torchrun, RANK: '4' },
    /RANK=4 and WORLD_SIZE=4 .*the ranks are 0 to 3/,
  ],
  [
    'a local rank beyond its host',
    { ...launchDumps.hydra, MPI_LOCALRANKID: '2' },
    /MPI_LOCALRANKID=2 and MPI_LOCALNRANKS=2 .*count from 0 to 1/,
  ],
  [
    'a host larger than the world',
    { ...launchDumps.openMpi, OMPI_COMM_WORLD_LOCAL_SIZE: '3' },
    /a host cannot have more than all 2 ranks/,
  ],
  [
    'a negative rank',
    { ...launchDumps.torchrun, RANK: '-1' },
    /RANK: "-1" is not a whole number from 0 to 1048576/,
  ],
  ['a rank of 1e2', { ...launchDumps.torchrun, RANK: '1e2' }, /RANK: "1e2" is not a whole number/],
  [
    'a world of more than a million',
    { ...launchDumps.torchrun, WORLD_SIZE: '1048577' },
    /WORLD_SIZE: "1048577" is not a whole number from 1 to 1048576/,
  ],
  [
    'a port beyond 65535',
    { ...launchDumps.torchrun, MASTER_PORT: '65536' },
    /MASTER_PORT: "65536" is not a whole number from 1 to 65535/,
  ],
  [
    'an address that is a command',
    { ...launchDumps.torchrun, MASTER_ADDR: 'a; rm -rf /' },
    /MASTER_ADDR: "a; rm -rf \/" is not a host name or an address/,
  ],
  [
    'a long value, of which only the beginning is shown',
    { ...launchDumps.torchrun, RANK: '9'.repeat(100_000) },
    /^The environment variable RANK: "9{60}…" is not a whole number .{0,99}$/,
  ],
  [
    'half of what mpirun sets',
    { OMPI_COMM_WORLD_RANK: '0' },
    /OMPI_COMM_WORLD_RANK: it is set, but OMPI_COMM_WORLD_SIZE and .* are not/,
  ],
  [
    'half of what hydra sets',
    { PMI_RANK: '0', PMI_SIZE: '2' },
    /PMI_RANK: it is set, but MPI_LOCALRANKID and MPI_LOCALNRANKS are not/,
  ],
  [
    'a step without SLURM_PROCID',
    { ...srun, SLURM_PROCID: undefined },
    /SLURM_STEP_ID: it is set, but SLURM_PROCID is not/,
  ],
  [
    'a node that the step does not have',
    { ...srun, SLURM_NODEID: '3' },
    /SLURM_NODEID=3 .*SLURM_STEP_TASKS_PER_NODE is of 3 nodes/,
  ],
  ['a rank that is not the one of srun', { ...srun, RANK: '1' }, /RANK=1 and slurm's rank=3/],
  [
    'PET_NODE_RANK alone',
    { PET_NODE_RANK: '0' },
    /PET_NODE_RANK: it is set, but PET_NNODES is not/,
  ],
  [
    'a node beyond its range',
    { ...launchDumps.kubeflow, PET_NODE_RANK: '2' },
    /PET_NODE_RANK=2 and PET_NNODES=2 .*the nodes are 0 to 1/,
  ],
  ['an empty range of nodes', { PET_NNODES: '4:2' }, /PET_NNODES: "4:2" is not a number of nodes/],
  [
    'an endpoint that is none',
    { PET_NNODES: '2', PET_RDZV_ENDPOINT: 'a:b:c' },
    /PET_RDZV_ENDPOINT: "a:b:c" is not a host and a port/,
  ],
  [
    'an Indexed Job with an address but no number of pods',
    { JOB_COMPLETION_INDEX: '0', MASTER_ADDR: 'job-0' },
    /MASTER_ADDR: it is set, but NNODES is not/,
  ],
  [
    'a LeaderWorkerSet before 0.6',
    { LWS_GROUP_SIZE: '2', LWS_LEADER_ADDRESS: 'a' },
    /LWS_GROUP_SIZE: it is set, but LWS_WORKER_INDEX is not/,
  ],
];

describe('detectLaunch', () => {
  it.each(launches)('finds %s', (_, env, expected) => {
    expect(detectLaunch(env)).toEqual(expected);
  });

  it.each(nested)('finds %s', (_, env, expected) => {
    expect(detectLaunch(env)).toMatchObject(expected);
  });

  it.each(refused)('refuses %s', (_, env, message) => {
    expect(() => detectLaunch(env)).toThrow(ConfigError);
    expect(() => detectLaunch(env)).toThrow(message);
  });

  it('whatever the variables hold, the ranks are consistent or it is a ConfigError', () => {
    const names = [...new Set(Object.values(launchDumps).flatMap((dump) => Object.keys(dump)))];
    const value = fc.oneof(
      fc.constantFrom('', '0', '1', '2', '3', 'auto', '1:2', 'gnode[1-2]', '2(x2)', 'a:1', '-1'),
      fc.string({ maxLength: 12 }),
    );
    const env = fc.dictionary(fc.constantFrom(...names), value, { maxKeys: 30 });
    fc.assert(
      fc.property(env, (variables) => {
        try {
          const launch = detectLaunch(variables);
          if (launch.kind === 'rank') {
            expect(launch.rank).toBeLessThan(launch.worldSize);
            expect(launch.localRank).toBeLessThan(launch.localWorldSize);
            expect(launch.localWorldSize).toBeLessThanOrEqual(launch.worldSize);
          } else if (launch.kind === 'node') {
            expect(launch.nodeRank ?? 0).toBeLessThan(launch.maxNodes);
            expect(launch.minNodes).toBeLessThanOrEqual(launch.maxNodes);
          }
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe('one process for each host', () => {
  it('is the only rank of its host where it is a script', () => {
    expect(asRankLaunch(detectLaunch(launchDumps.kubernetes))).toMatchObject({
      kind: 'rank',
      rank: 3,
      worldSize: 4,
      localRank: 0,
      localWorldSize: 1,
      address: 'job-0.service',
    });
  });

  it('is a node where it is `shardwise run`, as under srun --ntasks-per-node 1', () => {
    const env = { ...srun, SLURM_STEP_NUM_TASKS: '3', SLURM_STEP_TASKS_PER_NODE: '1(x3)' };
    expect(asNodeLaunch(detectLaunch({ ...env, SLURM_PROCID: '1' }))).toMatchObject({
      kind: 'node',
      nodeRank: 1,
      minNodes: 3,
      maxNodes: 3,
      ranksPerNode: undefined,
      address: 'gnode08',
    });
  });

  it('a script cannot be the four ranks that a pod is to start', () => {
    const launch = detectLaunch(launchDumps.kubeflow);
    expect(() => asRankLaunch(launch)).toThrow(/one process for each of 2 hosts, .*start 4 ranks/);
  });

  it('several `shardwise run` on one host are refused', () => {
    const launch = detectLaunch(launchDumps.openMpi);
    expect(() => asNodeLaunch(launch)).toThrow(/started as 2 of 2 ranks on this host/);
  });

  it('leaves a process that no launcher has started as it is', () => {
    expect(asRankLaunch(alone)).toEqual(alone);
    expect(asNodeLaunch(alone)).toEqual(alone);
  });
});

describe('the environment of processes that are not this rank', () => {
  it.each(Object.entries(launchDumps))('says nothing of a rank: %s', (_, env) => {
    expect(detectLaunch(withoutRankVariables({ ...env, MASTER_ADDR: undefined }))).toEqual(alone);
  });

  it('keeps what is not about the rank', () => {
    const kept = {
      PATH: '/bin',
      SLURM_JOB_ID: '1',
      SLURM_JOB_NODELIST: 'a',
      OMPI_MCA_btl: 'self,tcp',
      PMIX_MCA_gds: 'hash',
      MASTER_ADDR: 'a',
      UCX_TLS: 'tcp',
    };
    expect(withoutRankVariables({ ...kept, ...launchDumps.openMpi, ...launchDumps.hydra })).toEqual(
      {
        ...kept,
        MPIR_CVAR_CH3_INTERFACE_HOSTNAME: 'vm',
      },
    );
  });
});

describe('lists of Slurm', () => {
  const list = (text: string): readonly string[] => expandNodeList(text, 'SLURM_STEP_NODELIST');

  it.each([
    ['vm', ['vm']],
    [
      'gnode[10,20,25,37-39],x1',
      ['gnode10', 'gnode20', 'gnode25', 'gnode37', 'gnode38', 'gnode39', 'x1'],
    ],
    ['n[08-11]', ['n08', 'n09', 'n10', 'n11']],
    ['n[098-101]-ib', ['n098-ib', 'n099-ib', 'n100-ib', 'n101-ib']],
    ['r[0-1]n[1-2]', ['r0n1', 'r0n2', 'r1n1', 'r1n2']],
    ['a,b.example.org', ['a', 'b.example.org']],
  ])('%s', (text, hosts) => {
    expect(list(text)).toEqual(hosts);
  });

  it.each([
    ...', | a, | ,a | a,,b | [1-2 | a] | a[] | a[1-] | a[2-1] | a[1,] | a[x] | a[[1]] | a b'.split(
      ' | ',
    ),
    '',
    'a[0-65536]',
    'a[0-999]b[0-999]',
    'a[0-999999999999]',
    'a'.repeat(300),
  ])('refuses %s', (text) => {
    expect(() => list(text)).toThrow(ConfigError);
  });

  it('a list too long to be read is refused without being read', () => {
    expect(() => list('a,'.repeat(40_000))).toThrow(/at most 65536 hosts/);
  });

  it('any range has its numbers in order, padded as its first', () => {
    const range = fc.tuple(fc.nat(9999), fc.nat(200), fc.integer({ min: 1, max: 6 }));
    fc.assert(
      fc.property(range, ([first, more, width]) => {
        const text = (value: number): string => String(value).padStart(width, '0');
        const expected = Array.from({ length: more + 1 }, (_, index) => `n${text(first + index)}`);
        expect(list(`n[${text(first)}-${text(first + more)}]`)).toEqual(expected);
      }),
    );
  });

  it.each([
    ['2', [2]],
    ['4(x2),3', [4, 4, 3]],
    ['3,1(x2)', [3, 1, 1]],
  ])('tasks %s', (text, tasks) => {
    expect(expandTasksPerNode(text)).toEqual(tasks);
  });

  it.each(['', '0', '4(x0)', '4(x)', '4x2', '1(x1048577)', '1048577', '1,', 'a'])(
    'tasks refused: %s',
    (text) => {
      expect(() => expandTasksPerNode(text)).toThrow(ConfigError);
    },
  );
});
