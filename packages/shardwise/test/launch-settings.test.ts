import { InvalidArgumentError } from 'commander';
import { describe, expect, it } from 'vitest';
import {
  parseEndpoint,
  parseForm,
  parseNodes,
  parseRanks,
  parseSeconds,
} from '../src/cli/parse-values.ts';
import { describeGeneration } from '../src/cli/generation-notice.ts';
import type { RunCommandOptions } from '../src/cli/run-options.ts';
import { launchSettings } from '../src/cli/launch-settings.ts';
import { generationOf } from './generation-of.ts';

const options: RunCommandOptions = {
  script: 'train.ts',
  args: [],
  nproc: undefined,
  minNproc: undefined,
  device: undefined,
  servers: undefined,
  serverReplicas: undefined,
  snapshotEveryMs: undefined,
  workerRestarts: undefined,
  transport: undefined,
  transportTimeoutMs: undefined,
  ranks: undefined,
  nodes: undefined,
  nodeRank: undefined,
  rendezvous: undefined,
  jobId: undefined,
  maxRestarts: undefined,
  secretFile: undefined,
  joinTimeoutMs: undefined,
  lastCallMs: undefined,
  runDirectory: undefined,
  checkpointDirectory: undefined,
  resumeDirectory: undefined,
  metrics: [],
  report: true,
  plain: false,
};
const secret = { SHARDWISE_SECRET: 'a secret of this test alone' };
const kubeflow = {
  ...secret,
  PET_NNODES: '2',
  PET_NPROC_PER_NODE: '4',
  PET_NODE_RANK: '1',
  PET_MASTER_ADDR: 'job-0.service',
  PET_MASTER_PORT: '29500',
};

describe('what a host starts', () => {
  it('is one thread where nothing is said', async () => {
    expect(await launchSettings(options, {})).toEqual({
      nproc: 1,
      form: 'threads',
      maxRestarts: 0,
      hosts: undefined,
    });
  });

  it('are processes where several hosts rely on each other', async () => {
    const nodes = { min: 1, max: 3 };
    const rendezvous = { host: '10.0.0.1', port: 29_400 };
    const asked = { ...options, nproc: 2, nodes, rendezvous, lastCallMs: 5 };
    expect(await launchSettings(asked, secret)).toMatchObject({
      nproc: 2,
      form: 'processes',
      hosts: {
        nodes,
        place: undefined,
        endpoint: rendezvous,
        jobId: 'shardwise',
        secret: secret.SHARDWISE_SECRET,
        times: { lastCallMs: 5, joinTimeoutMs: 600_000 },
      },
    });
  });

  it('is what an operator says, but for what the command line says', async () => {
    expect(await launchSettings(options, kubeflow)).toMatchObject({
      nproc: 4,
      hosts: {
        nodes: { min: 2, max: 2 },
        place: 1,
        endpoint: { host: 'job-0.service', port: 29_500 },
      },
    });
    expect(await launchSettings({ ...options, nproc: 1, maxRestarts: 3 }, kubeflow)).toMatchObject({
      nproc: 1,
      maxRestarts: 3,
      hosts: { place: 1 },
    });
  });

  it('must be placed among the hosts by --node-rank', async () => {
    const asked = { ...options, nodes: { min: 2, max: 2 }, nodeRank: 2 };
    await expect(launchSettings(asked, secret)).rejects.toThrow(
      '--node-rank 2: a run on up to 2 hosts, which count from 0',
    );
  });
});

describe('values of command-line options', () => {
  it.each([
    ['2', { min: 2, max: 2 }],
    ['1:4', { min: 1, max: 4 }],
  ])('--nnodes %s', (text, range) => {
    expect(parseNodes(text)).toEqual(range);
  });

  it.each(['0', '4:1', '1:', ':2', '1:2:3', '-1', '99999', 'two'])(
    'are refused: --nnodes %s',
    (text) => {
      expect(() => parseNodes(text)).toThrow(InvalidArgumentError);
    },
  );

  it.each([
    ['host-a', { host: 'host-a', port: 29_400 }],
    ['10.0.0.1:80', { host: '10.0.0.1', port: 80 }],
    ['[fe80::1%eth0]:80', { host: 'fe80::1%eth0', port: 80 }],
  ])('--rdzv %s', (text, endpoint) => {
    expect(parseEndpoint(text)).toEqual(endpoint);
  });

  it.each(['', ':80', 'a:0', 'a:99999', 'a:b', 'a b', 'http://a'])(
    'are refused: --rdzv "%s"',
    (text) => {
      expect(() => parseEndpoint(text)).toThrow(InvalidArgumentError);
    },
  );

  it('are parsed: numbers, seconds and forms of ranks', () => {
    expect(parseRanks('12')).toBe(12);
    expect(parseSeconds('0.25')).toBe(250);
    expect(parseForm('processes')).toBe('processes');
    for (const parse of [parseRanks, parseSeconds, parseForm]) {
      expect(() => parse('-1')).toThrow(InvalidArgumentError);
    }
  });
});

describe('the notice about a generation', () => {
  const generation = generationOf(2, '/runs/x');
  const again = {
    ...generation,
    epoch: 1,
    restarts: 1,
    resumeDirectory: '/runs/x/checkpoints/step-2',
  };
  const choice = { kind: 'threads', reason: '' } as const;

  it('is left out for the first generation', () => {
    expect(describeGeneration({ generation, choice, before: undefined }, 3)).toBeUndefined();
  });

  it('is why, how often, with how many and from where ranks start again', () => {
    const failure = { rank: 1, node: '', reason: 'RangeError: too far' };
    expect(
      describeGeneration({ generation: again, choice, before: { kind: 'failed', failure } }, 3),
    ).toEqual({
      reason: 'Rank 1 failed: RangeError: too far',
      text:
        'Rank 1 failed: RangeError: too far. Starting again (restart 1 of 3) with 2 ranks ' +
        'from /runs/x/checkpoints/step-2.',
    });
  });

  it('is nothing where the others have gone on without this host', () => {
    const failure = { node: 'node 1 (b)', reason: 'its launcher was cut off' };
    const before = { kind: 'failed', failure } as const;
    const text = describeGeneration({ generation: again, choice, before, isSame: true }, 3)?.text;
    expect(text).toMatch(/^Node 1 \(b\) failed: its launcher was cut off\. Node \d of/);
  });

  it('is what a host that came later costs: nothing', () => {
    const before = { kind: 'joined', nodes: ['host-b'] } as const;
    const text = describeGeneration({ generation: again, choice, before }, 3)?.text;
    expect(text).toMatch(/^host-b joined\. Starting again with 2 ranks from/);
  });
});

describe('--min-nproc', () => {
  it('starts processes, which do not end each other', async () => {
    const settings = await launchSettings({ ...options, nproc: 4, minNproc: 2 }, {});
    expect(settings.form).toBe('processes');
  });

  it('may be more than all hosts had if they were of the size of this one', async () => {
    const nodes = { min: 2, max: 2 };
    const rendezvous = { host: 'a', port: 1 };
    const more = { nproc: 2, minNproc: 5, nodes, rendezvous };
    await expect(launchSettings({ ...options, ...more }, secret)).resolves.toBeDefined();
  });

  it.each([
    ['more ranks than there are', { nproc: 2, minNproc: 3 }, '--nproc 2, which is less'],
    ['parameter servers', { nproc: 2, minNproc: 1, servers: 1 }, '--servers, whose workers'],
  ])('is refused with %s', async (_, more, found) => {
    await expect(launchSettings({ ...options, ...more }, secret)).rejects.toThrow(found);
  });
});
