import { createMesh } from '@shardwise/collectives';
import {
  allGather,
  allReduce,
  broadcast,
  fromData,
  type Mesh,
  manualSeed,
  nn,
  noGrad,
  optim,
  type ProcessGroup,
  reduceScatter,
  setRank,
  ShardwiseError,
  type Strategy,
  tensor,
  Tensor,
} from '@shardwise/core';
import { type Backend, currentSession, withCollectiveName } from '@shardwise/core/extend';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  rowwiseParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { ModelSpec, Program, Statement } from './random-program.ts';

const width = 4;
const rows = 4;

/** Two towers that read the same input. */
class Towers extends nn.Module {
  readonly image: nn.ModuleList<nn.Sequential>;
  readonly text: nn.ModuleList<nn.Sequential>;
  readonly #checkpointed: boolean;

  constructor({ checkpointed, frozen, dropout }: ModelSpec) {
    super();
    this.#checkpointed = checkpointed;
    const block = (): nn.Sequential =>
      new nn.Sequential(
        new nn.Linear(width, 8),
        dropout ? new nn.Dropout(0.5) : new nn.Tanh(),
        new nn.Linear(8, width),
      );
    this.image = new nn.ModuleList([block(), block()]);
    this.text = new nn.ModuleList([block()]);
    if (frozen) for (const each of this.image.parameters()) each.requiresGrad_(false);
  }

  forward(x: Tensor): [Tensor, Tensor] {
    const run = (blocks: nn.ModuleList<nn.Sequential>): Tensor =>
      [...blocks].reduce(
        (h, block) =>
          this.#checkpointed ? nn.checkpoint(() => block.forward(h)) : block.forward(h),
        x,
      );
    return [run(this.image), run(this.text)];
  }
}

class Chain extends nn.Module {
  readonly layers: nn.Sequential;

  constructor() {
    super();
    this.layers = new nn.Sequential(
      new nn.Linear(width, 8),
      new nn.Tanh(),
      new nn.Linear(8, width),
    );
  }

  forward(x: Tensor): Tensor {
    return this.layers.forward(x);
  }
}

const styles = Object.fromEntries(
  ['image.0', 'image.1', 'text.0'].flatMap((block) => [
    [`${block}.0`, colwiseParallel()],
    [`${block}.2`, rowwiseParallel()],
  ]),
);

function strategyOf(name: ModelSpec['strategy']): Strategy {
  switch (name) {
    case 'ddp':
      return ddp({ bucketBytes: 200 });
    case 'zero 1':
      return zero({ stage: 1 });
    case 'zero 2':
      return zero({ stage: 2 });
    case 'zero 3':
      return zero({ stage: 3 });
    case 'fsdp':
      return fsdp();
    case 'fsdp that keeps':
      return fsdp({ reshardAfterForward: false });
    case 'fsdp in one unit':
      return fsdp({ unitOf: () => '', prefetch: 0 });
    case 'tensor parallel':
    case 'sequence parallel':
      return tensorParallel(styles);
    case 'fsdp of tensor parallel':
      return compose(tensorParallel(styles), fsdp());
    case 'pipeline':
      return pipeline({
        schedule: '1f1b',
        microbatches: 2,
        cut: ['layers.2'],
        loss: (output: Tensor, target: Tensor) => output.sub(target).square().mean(),
      });
    default:
      return name satisfies never;
  }
}

const axesOf = (kind: Program['mesh'], size: number) => {
  if (kind === 'dp × tp') {
    return [
      { name: 'dp', size: 2 },
      { name: 'tp', size: size / 2 },
    ];
  }
  return [{ name: kind, size }];
};

/** What the reads of one rank gave, in their order: the value's number, and its elements or the code of an error. */
export type Found = readonly (readonly [value: string, elements: readonly number[] | string])[];

interface Trained {
  readonly forward: (batch: number, grad: boolean) => readonly (Tensor | null)[];
  readonly parameters: () => nn.Parameter[];
  readonly optimizer: optim.AdamW;
}

/** Runs programs on one rank. */
export class ProgramRunner {
  readonly #group: ProcessGroup;
  readonly #device: Backend;
  readonly #meshes = new Map<string, Mesh>();

  constructor(group: ProcessGroup, device: Backend) {
    this.#group = group;
    this.#device = device;
  }

  async #meshOf(kind: Program['mesh']): Promise<Mesh> {
    const known = this.#meshes.get(kind);
    if (known !== undefined) return known;
    const axes = axesOf(kind, this.#group.size);
    const mesh = await createMesh(this.#group, axes);
    this.#meshes.set(kind, mesh);
    return mesh;
  }

  /** With `reads` 'all', every value is read where it is made, on every rank. */
  async run(program: Program, reads: 'all' | 'some'): Promise<Found> {
    const mesh = await this.#meshOf(program.mesh);
    setRank({ device: this.#device, mesh });
    const rank = this.#group.rank;
    const models: Trained[] = [];
    for (const [index, spec] of program.models.entries()) {
      manualSeed(program.seed * 10 + index);
      models.push(await this.#modelOf(spec, mesh, program.seed * 10 + index));
    }
    manualSeed(program.seed);
    const values = new Map<number, Tensor>();
    const found: [string, readonly number[] | string][] = [];
    const open: Promise<unknown>[] = [];
    const read = async (value: number): Promise<void> => {
      const made = values.get(value);
      if (made === undefined) return;
      found.push([String(value), await elementsOf(made)]);
    };
    for (const [index, statement] of program.statements.entries()) {
      const made = await this.#do(statement, models, mesh, values, open);
      if (reads === 'all') for (const value of made) await read(value);
      else for (const value of program.reads[index]?.[rank] ?? []) await read(value);
    }
    for (const each of open) await each;
    for (const [index, { parameters }] of models.entries()) {
      for (const [number, parameter] of parameters().entries()) {
        const whole =
          program.models[index]?.strategy === 'pipeline' ? parameter.part : parameter.mul(1);
        if (whole.shape.some((size) => size === 0)) continue;
        found.push([`model ${index} parameter ${number}`, await elementsOf(whole)]);
      }
    }
    await currentSession().issueAll();
    return found;
  }

  async #do(
    statement: Statement,
    models: readonly Trained[],
    mesh: Mesh,
    values: Map<number, Tensor>,
    open: Promise<unknown>[],
  ): Promise<readonly number[]> {
    const note = (value: number, made: Tensor | null): number[] => {
      if (made === null) return [];
      values.set(value, made);
      return [value];
    };
    const rank = this.#group.rank;
    switch (statement.kind) {
      case 'collective': {
        const { operation, input } = statement;
        const axis = mesh.axes[input % mesh.axes.length]?.name ?? 'dp';
        const size = mesh.group(axis).size;
        const x = tensor(Array.from({ length: 2 * size }, (_, i) => input + i + 100 * rank));
        const make = {
          allReduce: () => allReduce(x, axis),
          mean: () => allReduce(x, axis, { reduce: 'avg' }).sum(),
          allGather: () => allGather(x, axis, 0),
          broadcast: () => broadcast(x, axis, input % size),
          reduceScatter: () => reduceScatter(x, axis, 0),
        }[operation];
        // In a script, each statement has a line of its own.
        const result = withCollectiveName(`statement ${statement.value}`, make);
        return note(statement.value, result);
      }
      case 'forward': {
        const { model, batch, grad, values: numbers } = statement;
        const made = models[model]?.forward(batch, grad) ?? [];
        return numbers.flatMap((value, index) => note(value, made[index] ?? null));
      }
      case 'backward':
        values.get(statement.loss)?.backward();
        return [];
      case 'step': {
        const { optimizer, parameters } = models[statement.model] ?? {};
        if (optimizer === undefined || parameters === undefined) return [];
        const norm = statement.clip === null ? null : optim.clipGradNorm(parameters(), 0.5);
        const stepped = optimizer.step();
        if (statement.awaited) await stepped;
        else {
          // An error is told where the step is waited for.
          stepped.catch(() => {});
          open.push(stepped);
        }
        optimizer.zeroGrad();
        return statement.clip === null ? [] : note(statement.clip, norm);
      }
      case 'parameter': {
        const all = models[statement.model]?.parameters() ?? [];
        return note(statement.value, all[statement.index % all.length]?.square().sum() ?? null);
      }
      case 'gradient': {
        const all = models[statement.model]?.parameters() ?? [];
        const one = all[statement.index % all.length]?.part.grad?.mul(2) ?? null;
        return note(statement.value, statement.isNorm ? optim.totalGradNorm(all) : one);
      }
      case 'group': {
        const bytes = new Uint8Array(Float32Array.of(statement.value + rank).buffer);
        await this.#group.allReduce({ bytes, dtype: 'f32' }, 'sum');
        return note(statement.value, tensor([...new Float32Array(bytes.buffer)]));
      }
      case 'failure': {
        // An error in the run of a step that is under way would end the rank.
        for (const each of open.splice(0)) await each;
        await currentSession().issueAll();
        const axis = mesh.axes[0]?.name ?? 'dp';
        const bad = tensor([1, 2, 3]).indexSelect(0, tensor([7 + rank], 'i32'));
        const error = await elementsOf(allReduce(bad, axis));
        if (typeof error !== 'string') throw new Error('an index out of range was accepted');
        return [];
      }
      case 'dispose':
        values.get(statement.value)?.dispose();
        return [];
      case 'pause':
        await new Promise((resolve) => setTimeout(resolve, 2));
        return [];
      default:
        return statement satisfies never;
    }
  }

  async #modelOf(spec: ModelSpec, mesh: Mesh, seed: number): Promise<Trained> {
    const isDivided = mesh.axes.some(({ name }) => name === 'dp');
    const place = isDivided ? mesh.coordinate('dp') : 0;
    const strategy = strategyOf(spec.strategy);
    const batchOf = (batch: number): Tensor => {
      const data = Float32Array.from({ length: rows * width }, (_, i) =>
        Math.sin(seed + 7 * batch + i + 50 * place),
      );
      return fromData(data, [rows, width], 'f32');
    };
    if (spec.strategy === 'pipeline') {
      const parallel = await parallelize(new Chain(), strategy);
      const run = (batch: number): Tensor => {
        const forward: unknown = Reflect.get(parallel, 'forward');
        if (typeof forward !== 'function') throw new TypeError('a forward pass');
        const inputs = [batchOf(batch), batchOf(batch + 1)];
        const result: unknown = Reflect.apply(forward, parallel, inputs);
        if (result instanceof Tensor) return result;
        throw new TypeError('a loss');
      };
      return {
        forward: (batch, grad) => [null, null, grad ? run(batch) : noGrad(() => run(batch))],
        parameters: () => parallel.module.parameters(),
        optimizer: new optim.AdamW(parallel.module.parameters(), { lr: spec.learningRate }),
      };
    }
    const parallel = await parallelize(new Towers(spec), strategy);
    return {
      forward: (batch, grad) => {
        const run = (): [Tensor, Tensor, Tensor] => {
          const [image, text] = parallel.forward(batchOf(batch));
          return [image, text, image.add(text).square().mean()];
        };
        return grad ? run() : noGrad(run);
      },
      parameters: () => parallel.module.parameters(),
      optimizer: new optim.AdamW(
        parallel.module.parameters().filter(({ requiresGrad }) => requiresGrad),
        { lr: spec.learningRate },
      ),
    };
  }
}

async function elementsOf(value: Tensor): Promise<readonly number[] | string> {
  try {
    return Array.from(await value.data(), Number);
  } catch (error) {
    if (ShardwiseError.isInstance(error) && error.code.startsWith('COLLECTIVE')) throw error;
    return ShardwiseError.isInstance(error) ? `${error.code}: ${error.message}` : String(error);
  }
}
