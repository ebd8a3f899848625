import { cp, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readTextFiles } from '@shardwise/core/node';
import { settleRanks } from '@shardwise/testing/node';
import { currentSession } from '@shardwise/core/extend';
import {
  arange,
  CheckpointError,
  checkpoints,
  CollectiveError,
  ConfigError,
  cpu,
  data,
  DataError,
  dist,
  DTypeError,
  fromData,
  LayoutError,
  nn,
  ones,
  optim,
  setRandomState,
  setRank,
  ShapeError,
  type ShardwiseError,
  tensor,
  TensorStateError,
  zeros,
} from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readOptions } from '../examples/gpt/options.ts';
import type { Disagreement } from './ranks/disagree.ts';
import { repository } from './support/documents.ts';
import { type Ended, runCommand } from './support/run-command.ts';
import { exampleScript, runShardwise } from './support/run-shardwise.ts';

// Each wrong input ends in an error that says what was asked, what was found, and what to do.

interface BadInput {
  readonly does: () => unknown;
  readonly error: abstract new (...args: never[]) => ShardwiseError;
  readonly code: string;
  /** The error has at least these fields. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Texts that the message contains in this order: what was asked, what was found, and what to do. */
  readonly says: readonly [asked: string, found: string, ...more: string[], todo: string];
}

let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'shardwise-bad-input-'));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

async function thrownBy(does: () => unknown): Promise<unknown> {
  try {
    await does();
  } catch (error) {
    return error;
  }
  throw new Error('it was accepted');
}

async function expectRefusal({ does, error, code, fields, says }: BadInput): Promise<void> {
  const thrown = await thrownBy(does);
  expect(thrown).toBeInstanceOf(error);
  expect(thrown).toMatchObject({ name: error.name, code, fields });
  expectInOrder(thrown instanceof Error ? thrown.message : '', says);
}

function expectInOrder(message: string, texts: readonly string[]): void {
  let from = 0;
  for (const text of texts) {
    const at = message.indexOf(text, from);
    expect(at, `'${text}' in '${message}'`).toBeGreaterThanOrEqual(from);
    from = at + text.length;
  }
}

// Files that have run in this process before may have made it a rank.
it('reading a tensor before init says how to begin', async () => {
  const code = "import { ones } from '@shardwise/core'; await ones([2]).add(1).data();";
  const args = ['--input-type=module', '--eval', code];
  const { exitCode, stderr } = await runCommand('node', args, { cwd: repository });
  expect(exitCode).toBe(1);
  expectInOrder(stderr, ['to compute a tensor', 'a rank without a device', 'Call `await init()`']);
});

describe('experts and parameter servers', () => {
  beforeAll(async () =>
    setRank({ device: await cpu(), mesh: new dist.LineMesh('dp', dist.singleGroup()) }),
  );

  const servers = (size: number): dist.servers.ParameterServers => ({
    size,
    connect: async () => {
      throw new CollectiveError(
        { asked: 'a connection', found: 'nobody there', todo: 'Start it' },
        { lost: 'server 0' },
      );
    },
    whenClosed: () => undefined,
  });
  const planOn = (strategy: dist.Strategy, axes: readonly dist.MeshAxis[]): dist.Plan => {
    const layer = new nn.MixtureOfExperts(4, 8, 6);
    const parameters = layer
      .namedParameters()
      .map(([name, { shape, dtype }]) => ({ name, shape, dtype, requiresGrad: true }));
    return strategy.plan({ parameters }, axes);
  };
  const inputs: Readonly<Record<string, BadInput>> = {
    'a capacity of 0': {
      does: () => nn.topKGate({ capacity: { factor: 0 } }),
      error: ConfigError,
      code: 'CONFIG',
      fields: { factor: 0 },
      says: ['topKGate', 'factor: 0', 'a number above 0'],
    },
    'more experts for each token than there are': {
      does: () => new nn.MixtureOfExperts(4, 8, 2, { gate: nn.topKGate({ k: 3 }) }),
      error: ConfigError,
      code: 'CONFIG',
      fields: { k: 3, experts: 2 },
      says: ['topKGate', 'k: 3', '2 experts'],
    },
    'experts that the ranks do not divide': {
      does: () => planOn(dist.expertParallel(), [{ name: 'ep', size: 4 }]),
      error: LayoutError,
      code: 'LAYOUT',
      fields: { dim: 0, size: 4 },
      says: ["'experts.up' of shape [6, 4, 8] over 4 ranks", '6 elements', 'Pad it to 8'],
    },
    'experts that both axes together do not divide': {
      does: () =>
        planOn(dist.expertParallel({ axis: ['tp', 'ep'], sameTokens: ['tp'] }), [
          { name: 'ep', size: 2 },
          { name: 'tp', size: 2 },
        ]),
      error: LayoutError,
      code: 'LAYOUT',
      fields: { dim: 0, size: 4 },
      says: ['[6, 4, 8] over 4 ranks', '6 elements', 'Pad it to 8'],
    },
    'axes whose ranks have the same tokens and no experts': {
      does: () => dist.expertParallel({ sameTokens: ['tp'] }),
      error: ConfigError,
      code: 'CONFIG',
      fields: { axis: ['ep'], sameTokens: ['tp'] },
      says: ["over 'ep'", "'tp', which is not an axis that divides experts", 'Name each axis'],
    },
    'a world that experts do not divide': {
      does: () =>
        dist.createMesh(dist.singleGroup(), [
          { name: 'dp', size: 1 },
          { name: 'ep', size: 4 },
        ]),
      error: ConfigError,
      code: 'CONFIG',
      fields: { worldSize: 1 },
      says: ['A mesh of dp 1 x ep 4', 'that is 4 ranks, and the group has 1', 'Choose sizes'],
    },
    'a layer of experts that there is not': {
      does: () => dist.planFor(new nn.Linear(2, 2), dist.expertParallel({ axis: 'dp' })),
      error: LayoutError,
      code: 'LAYOUT',
      fields: { axis: ['dp'] },
      says: ["expertParallel() over 'dp'", 'a model without a layer of experts', 'Use nn.Mixture'],
    },
    'a staleness below 0': {
      does: () => dist.parameterServer({ servers: servers(1), consistency: { staleness: -1 } }),
      error: ConfigError,
      code: 'CONFIG',
      fields: {},
      says: ['staleness', '-1', 'a whole number of steps from 0'],
    },
    'a strategy on servers that there are not': {
      does: () => dist.parameterServer({ servers: servers(0) }),
      error: ConfigError,
      code: 'CONFIG',
      fields: {},
      says: ['parameterServer()', 'a run without servers', '--servers 1'],
    },
    'a table without servers': {
      does: () =>
        dist.servers.ServerTable.open({
          servers: servers(0),
          name: 'words',
          rows: 4,
          dims: 2,
          lr: 1,
        }),
      error: ConfigError,
      code: 'CONFIG',
      fields: {},
      says: ['a table on parameter servers', 'a run without servers', '--servers 1'],
    },
    'a server that nobody can reach, without a replica': {
      does: () =>
        dist.parallelize(
          new nn.Linear(2, 2),
          dist.parameterServer({ servers: servers(1), timeoutMs: 10 }),
        ),
      error: CollectiveError,
      code: 'COLLECTIVE',
      fields: { server: 0, timeoutMs: 10 },
      says: [
        'A request to parameter server 0',
        'no replica has taken its place',
        'run with replicas',
      ],
    },
  };

  it.each(Object.entries(inputs))('%s', (_, input) => expectRefusal(input));
});

describe('a tensor', () => {
  beforeAll(async () =>
    setRank({ device: await cpu(), mesh: new dist.LineMesh('dp', dist.singleGroup()) }),
  );

  const inputs: Readonly<Record<string, BadInput>> = {
    'of a shape that does not broadcast': {
      does: () => ones([2, 3]).add(ones([4])),
      error: ShapeError,
      code: 'SHAPE',
      fields: { a: [2, 3], b: [4], dim: -1 },
      says: ['add of shapes [2, 3] and [4]', 'sizes 3 and 4 at dim -1', 'Make the sizes equal'],
    },
    'of features that do not fit a layer': {
      does: () => new nn.Linear(3, 4).forward(ones([2, 5])),
      error: ShapeError,
      code: 'SHAPE',
      fields: { operation: 'linear', argument: 'x', shape: [2, 5] },
      says: [
        'linear with x of shape [2, 5]',
        '5 features (dim -1) instead of 3',
        'Use x of shape [.., 3]',
      ],
    },
    'of inner sizes that do not fit a matmul': {
      does: () => ones([2, 5]).matmul(ones([4, 3])),
      error: ShapeError,
      code: 'SHAPE',
      fields: {
        op: 'matmul',
        shapes: [
          [2, 5],
          [4, 3],
        ],
      },
      says: ['matmul of shapes [2, 5], [4, 3]', 'inner sizes 5 and 4', 'Make them equal'],
    },
    'with another number of elements than its new shape': {
      does: () => ones([2, 3]).reshape([4]),
      error: ShapeError,
      code: 'SHAPE',
      fields: { op: 'reshape' },
      says: ['reshape of shapes [2, 3]', '6 elements for the shape [4] of 4', 'as many elements'],
    },
    'reduced along a dim that it does not have': {
      does: () => ones([2, 3]).sum(2),
      error: ShapeError,
      code: 'SHAPE',
      fields: { dim: 2, ndim: 2 },
      says: ['sum along dim 2', 'a tensor of 2 dims', 'Use a dim from -2 to 1'],
    },
    'of rows of different lengths': {
      does: () => tensor([[1], [1, 2]]),
      error: ShapeError,
      code: 'SHAPE',
      fields: { depth: 1 },
      says: ['nested arrays', 'rows of different lengths at depth 1', 'the same length'],
    },
    'of more data than its shape': {
      does: () => fromData(new Float32Array(3), [2], 'f32'),
      error: ShapeError,
      code: 'SHAPE',
      fields: { shape: [2], elements: 3 },
      says: ['a tensor of shape [2] (2 elements)', '3 elements', 'as many elements as the shape'],
    },
    'of two dtypes in a product of matrices': {
      does: () => ones([2, 2]).matmul(zeros([2, 2], 'f16')),
      error: DTypeError,
      code: 'DTYPE',
      fields: { op: 'matmul', dtypes: ['f32', 'f16'] },
      says: [
        'matmul of f32 [2, 2] and f16 [2, 2]',
        'two dtypes',
        "Convert one of them with .to('f32')",
      ],
    },
    'of whole numbers, asked for their mean': {
      does: () => arange(4).mean(),
      error: DTypeError,
      code: 'DTYPE',
      fields: { op: 'mean', dtype: 'i32' },
      says: ['mean of an i32 tensor of shape [4]', 'takes f32', ".to('f32')"],
    },
    'of floats where an embedding takes indices': {
      does: () => new nn.Embedding(5, 3).forward(ones([2])),
      error: DTypeError,
      code: 'DTYPE',
      fields: { dtype: 'f32', allowed: ['i32'] },
      says: [
        'embedding with indices of dtype f32 and shape [2]',
        'indices and labels are i32',
        "Convert them with .to('i32')",
      ],
    },
    'of targets that are not one for each row': {
      does: () => nn.functional.crossEntropy(ones([2, 3]), arange(3)),
      error: ShapeError,
      code: 'SHAPE',
      fields: { classes: [2, 3], targets: [3] },
      says: [
        'classes of shape [2, 3] and targets of shape [3]',
        'not one class index per row',
        'Use targets of shape [2]',
      ],
    },
    'of several elements, read as one': {
      does: () => ones([2]).item(),
      error: ShapeError,
      code: 'SHAPE',
      fields: { shape: [2] },
      says: ['item() of a tensor of shape [2]', '2 elements', 'Use data()'],
    },
    'that is no scalar, differentiated': {
      does: () => new nn.Linear(2, 2).forward(ones([3, 2])).backward(),
      error: ShapeError,
      code: 'SHAPE',
      fields: { shape: [3, 2] },
      says: [
        'backward() from a tensor of shape [3, 2]',
        '6 elements',
        'Reduce it to a scalar first',
      ],
    },
    'without parameters, differentiated': {
      does: () => ones([2]).sum().backward(),
      error: TensorStateError,
      code: 'TENSOR_STATE',
      fields: { op: 'sum' },
      says: ['backward()', 'no tensor that requires a gradient', 'Check that parameters were used'],
    },
    'that is a gradient, read after zeroGrad': {
      does: async () => {
        const model = new nn.Linear(2, 2);
        model
          .forward(ones([3, 2]))
          .sum()
          .backward();
        const gradient = model.weight.grad;
        await gradient?.realize();
        model.zeroGrad();
        await gradient?.add(1).data();
      },
      error: TensorStateError,
      code: 'TENSOR_STATE',
      fields: { shape: [2, 2] },
      says: [
        'of a tensor of shape [2, 2]',
        'its memory was freed by zeroGrad()',
        'before it is freed',
      ],
    },
    'reduced over an axis that the mesh does not have': {
      does: () => currentSession().mesh.group('tp'),
      error: ConfigError,
      code: 'CONFIG',
      fields: { axis: 'tp' },
      says: ["the group of axis 'tp'", 'a mesh with the axes dp', 'Use one of these axes'],
    },
  };

  it.each(Object.entries(inputs))('%s', (_, input) => expectRefusal(input));

  const settings: Readonly<Record<string, BadInput>> = {
    'a strategy over an axis that the mesh does not have': {
      does: () => dist.planFor(new nn.Linear(2, 2), dist.ddp({ axis: 'tp' })),
      error: LayoutError,
      code: 'LAYOUT',
      fields: { axis: 'tp' },
      says: ["ddp over the mesh axis 'tp'", 'the axes dp', 'Name an axis of the mesh'],
    },
    'a sampler of a rank out of range': {
      does: () => new data.DistributedSampler({ dataset: 10, numReplicas: 2, rank: 2 }),
      error: ConfigError,
      code: 'CONFIG',
      fields: { rank: 2, numReplicas: 2 },
      says: [
        'a distributed sampler of 2 replicas',
        'Invalid rank 2, rank should be in the interval [0, 1]',
        'Pass the rank and the size',
      ],
    },
    'a learning rate below 0': {
      does: () => new optim.AdamW(new nn.Linear(2, 2).parameters(), { lr: -1 }),
      error: ConfigError,
      code: 'CONFIG',
      fields: { option: 'lr', lr: -1 },
      says: ['an optimizer with lr: -1', 'a value that is not', 'Give a number in [0'],
    },
    'a probability above 1': {
      does: () => new nn.Dropout(1.5),
      error: ConfigError,
      code: 'CONFIG',
      fields: { probability: 1.5 },
      says: [
        'dropout with probability: 1.5',
        'not a number from 0 to 1',
        'Give a number from 0 to 1',
      ],
    },
    'a world of no ranks': {
      does: () => dist.transports.createThreadsWorld({ size: 0 }),
      error: ConfigError,
      code: 'CONFIG',
      fields: { size: 0 },
      says: ['Shared memory for 0 ranks', 'it holds 1 to 64', 'Use'],
    },
    'a random state that is none': {
      does: () => setRandomState({ seed: 1 }),
      error: ConfigError,
      code: 'CONFIG',
      fields: { path: 'generator' },
      says: [
        "the state of this rank's random numbers",
        'generator',
        'Pass what randomState() returned',
      ],
    },
    'an option that the example does not have': {
      does: () => readOptions(['--layer', '2']),
      error: ConfigError,
      code: 'CONFIG',
      fields: { argv: ['--layer', '2'] },
      says: [
        'the options of the script',
        "Unknown option '--layer'",
        'Use the options --strategy, --inner-ranks',
      ],
    },
    'an option of the example that is no number': {
      does: () => readOptions(['--layers', 'two', '--seed=-1']),
      error: ConfigError,
      code: 'CONFIG',
      fields: {},
      says: ['the options of the script', '--layers', '--seed', 'Use the options'],
    },
    'heads that do not share the channels': {
      does: () => readOptions(['--channels', '32', '--heads', '3']),
      error: ConfigError,
      code: 'CONFIG',
      fields: {},
      says: [
        'the options of the script',
        '--heads: 3 heads do not divide 32 channels',
        'Use the options',
      ],
    },
  };

  it.each(Object.entries(settings))('a setting: %s', (_, input) => expectRefusal(input));
});

describe('data', () => {
  const inputs: Readonly<Record<string, BadInput>> = {
    'of a glob that matches nothing': {
      does: () => readTextFiles('absent/*.md', { cwd: folder }),
      error: DataError,
      code: 'DATA',
      fields: { glob: 'absent/*.md' },
      says: ["text files matching 'absent/*.md'", 'no file under', 'Correct the glob'],
    },
    'shorter than a window': {
      does: () => new data.TextDataset(new Uint8Array(8), { contextLength: 8 }),
      error: DataError,
      code: 'DATA',
      fields: { contextLength: 8, bytes: 8 },
      says: ['windows of 8 bytes', 'a text of 8 bytes', 'a context of at most 7 bytes'],
    },
    'continued by a loader of other batches': {
      does: () => {
        const dataset = new data.TextDataset(data.splitText(new Uint8Array(100), 0.1).train, {
          contextLength: 8,
        });
        const loader = (batchSize: number) => new data.DataLoader({ dataset, batchSize });
        loader(4).load(loader(3).state());
      },
      error: ConfigError,
      code: 'CONFIG',
      fields: {},
      says: [
        'to continue in the middle of an epoch',
        'the state was saved with batchSize 3; this data loader has batchSize 4',
        'Use batchSize 3',
      ],
    },
  };

  it.each(Object.entries(inputs))('%s', (_, input) => expectRefusal(input));
});

describe('ranks that disagree', () => {
  const disagreements: Readonly<Record<Disagreement, readonly string[]>> = {
    'the shape of a batch': [
      'ranks 0, 1 is allReduce(sum, f32 [12])',
      'on rank 2 it is allReduce(sum, f32 [15])',
    ],
    'the operation': ['ranks 0, 1 is allReduce(sum, f32 [4])', 'on rank 2 it is broadcast('],
    'the limit of buckets': [
      'to train one model on all ranks',
      'rank 2 differs from rank 0: rank 0 has the step reduce axis dp, limitsBytes',
    ],
    'the model': [
      'to train one model on all ranks',
      'rank 2 differs from rank 0 at tensor 0: rank 0 has weight f32 [5, 6]',
    ],
    'the strategy': [
      'to train one model on all ranks',
      'rank 2 differs from rank 0: rank 0 has the strategy ddp',
      'Build the same model, with the same strategy and options, on every rank',
    ],
  };

  it.each(Object.entries(disagreements))(
    'about %s all fail, and each says how',
    async (disagreement, says) => {
      const size = 3;
      const world = dist.transports.createThreadsWorld({ size, arenaBytes: 4 * 1024 * 1024 });
      const outcomes = await settleRanks(size, new URL('./ranks/disagree.ts', import.meta.url), {
        world,
        data: disagreement,
        timeoutMs: 60_000,
      });
      const failures = outcomes.flatMap((outcome) =>
        outcome.status === 'rejected' ? [outcome.error.report] : [],
      );
      expect(failures).toHaveLength(size);
      for (const { name, code, message } of failures) {
        expect({ name, code }, message).toEqual({
          name: 'CollectiveMismatchError',
          code: 'COLLECTIVE_MISMATCH',
        });
        expectInOrder(message, says);
      }
    },
  );
});

describe('a checkpoint', () => {
  let saved = '';
  const model = new nn.Linear(3, 2);

  beforeAll(async () => {
    const optimizer = new optim.SGD(model.parameters(), { momentum: 0.9 });
    model
      .forward(zeros([1, 3]))
      .sum()
      .backward();
    await optimizer.step();
    saved = await checkpoints.save(join(folder, 'checkpoints'), { step: 7, model, optimizer });
  });

  async function refusalOf(file: string, change: (path: string) => Promise<void>): Promise<void> {
    const copy = await mkdtemp(join(folder, 'changed-'));
    await cp(saved, copy, { recursive: true });
    await change(join(copy, file));
    const error = await thrownBy(() => checkpoints.load(copy));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error).toMatchObject({ code: 'CHECKPOINT' });
    expectInOrder(error instanceof Error ? error.message : '', [join(copy, file), 'Load a']);
  }

  it('is whole before anything is done to it', async () => {
    expect((await checkpoints.load(saved)).step).toBe(7);
  });

  describe.each([
    'model-00001-of-00001.safetensors',
    'optimizer-00001-of-00001.safetensors',
    'state.json',
  ])('%s', (file) => {
    it('is refused wherever it is cut', async () => {
      const { byteLength } = await readFile(join(saved, file));
      // The last byte of state.json is a line feed, which is not needed.
      const lengths = [0, 1, 7, 8, 9, Math.floor(byteLength / 2), byteLength - 2].filter(
        (length) => length < byteLength - 1,
      );
      for (const length of lengths) await refusalOf(file, (path) => truncate(path, length));
    });

    it('is refused where bytes were added', () =>
      refusalOf(file, async (path) =>
        writeFile(path, Buffer.concat([await readFile(path), Buffer.from('{}')])),
      ));
  });

  it('of another model is refused before anything changes, listing what differs', async () => {
    const checkpoint = await checkpoints.load(saved);
    const other = new nn.Linear(4, 2, { bias: false });
    const before = Array.from(await other.weight.data(), Number);
    await expectRefusal({
      does: () => checkpoints.loadModel(checkpoint, other),
      error: CheckpointError,
      code: 'CHECKPOINT',
      fields: {
        missing: [],
        unexpected: ['bias'],
        different: ['weight (shape [2, 3], not [2, 4])'],
      },
      says: [
        'into Linear',
        '1 unexpected: bias; 1 different: weight (shape [2, 3], not [2, 4])',
        'Load what was saved of a model of the same structure',
      ],
    });
    expect(Array.from(await other.weight.data(), Number)).toEqual(before);
  });

  it('is refused where there is none', () =>
    expectRefusal({
      does: () => checkpoints.load(join(folder, 'absent')),
      error: CheckpointError,
      code: 'CHECKPOINT',
      fields: { directory: join(folder, 'absent') },
      says: [
        'Loading a checkpoint from',
        'there is no state.json',
        'Give a folder that saveCheckpoint wrote to',
      ],
    }));

  it('of another script is refused by the example', async () => {
    const directory = await checkpoints.save(join(folder, 'other-script'), {
      step: 1,
      model: {},
      extra: { epoch: 3 },
    });
    await writeFile(join(folder, 'text.txt'), 'text '.repeat(2000));
    const run = await shardwise([
      'run',
      '--resume',
      directory,
      exampleScript,
      '--data',
      'text.txt',
      '--layers',
      '1',
      '--channels',
      '32',
    ]);
    expect(run.exitCode).toBe(1);
    expectInOrder(run.stderr, [
      'Rank 0 failed: CheckpointError: to continue from',
      'a checkpoint that this script did not write',
      'Name a checkpoint of a run of this script',
    ]);
  });
});

function shardwise(args: readonly string[]): Promise<Ended> {
  return runShardwise(args, { cwd: folder });
}

describe('a command', () => {
  it.each([
    [
      'for no ranks',
      ['--nproc', '0', exampleScript],
      [
        "--nproc <count>' argument '0' is invalid",
        'It must be a whole number from 1',
        'See `shardwise run --help`',
      ],
    ],
    [
      'with an option that it does not have',
      ['--frobnicate', exampleScript],
      ["unknown option '--frobnicate'", 'See `shardwise run --help`'],
    ],
    [
      'for a script that is missing',
      ['absent.ts'],
      ['Running absent.ts', 'no such file in', 'Give the path of a training script'],
    ],
    [
      'to continue from nothing',
      ['--resume', 'absent', exampleScript],
      [
        'Loading a checkpoint from absent',
        'there is no state.json',
        'Give a folder that saveCheckpoint wrote to',
      ],
    ],
  ] as const)('%s ends with exit code 2 and one line', async (_, args, says) => {
    const run = await shardwise(['run', ...args]);
    expect(run.exitCode).toBe(2);
    expect(run.stdout).toBe('');
    expect(run.stderr.trimEnd().split('\n')).toHaveLength(1);
    expectInOrder(run.stderr, says);
  });

  it.each([
    [
      'an option that it does not have',
      ['--layer', '1'],
      [
        'ConfigError: to read the options of the script',
        "Unknown option '--layer'",
        'Use the options --strategy',
      ],
    ],
    [
      'data that match nothing',
      ['--data', 'absent/*.md'],
      ["DataError: text files matching 'absent/*.md'", 'no file under', 'Correct the glob'],
    ],
    [
      'a text that is too short for a batch',
      ['--data', 'short.txt', '--context-length', '8'],
      [
        'DataError: updates of 1 × 8 windows of 8 bytes on each of 2 replicas of the model',
        'a text of 95 bytes, 6 windows for a rank',
        'Use a longer text',
      ],
    ],
  ] as const)(
    'whose script is given %s fails on all ranks, with the line of the script and no stack',
    async (_, args, says) => {
      await writeFile(join(folder, 'short.txt'), 'x'.repeat(100));
      const run = await shardwise(['run', '--nproc', '2', exampleScript, ...args]);
      expect(run.exitCode).toBe(1);
      expectInOrder(run.stderr, [' failed', ...says]);
      expect(run.stderr).toMatch(/^    at .*examples\/.*\.ts:\d+:\d+$/m);
      expect(run.stderr).not.toMatch(/^\s+at .*\n\s+at /m);
    },
  );
});
