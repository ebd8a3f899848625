import {
  currentSession,
  hashOf,
  isGradEnabled,
  isHeldAt,
  MixtureOfExperts,
  type Module,
  noGrad,
  type Optimizer,
  ownPlace,
  randomState,
  type Tensor,
} from '@shardwise/core/extend';
import { forEachTensor } from '@shardwise/strategies';
import type {
  Elements,
  RankRecord,
  RecordedKind,
  RecordedPass,
  RecordedValue,
  ValuePlace,
} from './records.ts';

/** A value that the next update reads. */
interface Awaited extends Omit<ValuePlace, 'step'> {
  readonly tensor: Tensor;
}

interface AwaitedPass extends Omit<RecordedPass, 'inputs'> {
  readonly tensors: readonly Tensor[];
}

/** Records what the model of a rank computes, update by update. */
export class Recorder {
  readonly values: RecordedValue[] = [];
  readonly passes: RecordedPass[] = [];
  readonly backwards: number[] = [];
  readonly keptGradients: { step: number; name: string }[] = [];
  readonly classes: Record<string, string> = {};
  readonly #models: Module[] = [];
  readonly #awaited: Awaited[] = [];
  readonly #awaitedPasses: AwaitedPass[] = [];
  readonly #calls = new Map<string, number>();
  /** The gradients that were there after the latest update. */
  readonly #oldGradients = new Map<string, unknown>();
  #backwards = 0;
  #isInStep = false;
  #inMicrobatches = false;
  /** The part of the batch whose pass is being built, if one rank passes them one after the other. */
  part: number | null = null;
  /** The microbatch whose pass is being built, if a pass has several. */
  microbatch: number | null = null;

  /** The number of updates so far. */
  get updates(): number {
    return this.backwards.length;
  }

  /** Whether an optimizer makes an update now. */
  get isInStep(): boolean {
    return this.#isInStep;
  }

  /**
   * Records a model from now on. `inMicrobatches`: whether a pass of the model calls it for one microbatch after the
   * other, as a pipeline does.
   */
  async addModel(
    model: Module,
    { inMicrobatches }: { readonly inMicrobatches: boolean },
  ): Promise<void> {
    const prefix = this.#models.length === 0 ? '' : `model ${this.#models.length + 1}: `;
    this.#models.push(model);
    this.#inMicrobatches = inMicrobatches;
    if (inMicrobatches) {
      model.registerForwardPreHook(() => {
        if (this.microbatch !== null) this.microbatch++;
        return undefined;
      });
    }
    // Experts have the tokens that were routed to them, in batches of the strategy.
    const experts = new Set<Module>(
      model
        .namedModules()
        .flatMap(([, module]) => (module instanceof MixtureOfExperts ? [module.experts] : [])),
    );
    for (const [path, module] of model.namedModules()) {
      this.classes[`${prefix}${path}`] = module.constructor.name;
      if (experts.has(module) || typeof Reflect.get(module, 'forward') !== 'function') continue;
      module.registerForwardHook((_, __, output) => {
        this.#await('output', `${prefix}${path}`, output);
        return undefined;
      });
    }
    await this.#readModels('initial', 0, () => true);
  }

  /** Runs a forward pass, and notes its inputs and whether it drew random numbers. */
  pass<T>(inputs: readonly unknown[], run: () => T): T {
    if (!isGradEnabled()) return run();
    const before = drawn();
    if (this.#inMicrobatches) this.microbatch = -1;
    const result = run();
    this.microbatch = null;
    const tensors: Tensor[] = [];
    forEachTensor(inputs, (tensor) => tensors.push(tensor));
    for (const tensor of tensors) if (tensor.node.value === null) tensor.retain();
    const shapes = tensors.map(({ shape }) => [...shape]);
    const step = this.updates + 1;
    this.#awaitedPasses.push({ step, shapes, draws: drawn() !== before, tensors });
    return result;
  }

  /** Call it before each backward pass of a loss. */
  beforeBackward(loss: Tensor): void {
    if (this.#models.length === 0) return;
    if (this.#backwards === 0) {
      for (const [name, parameter] of this.#parameters()) {
        const { gradientNode } = parameter.part;
        if (gradientNode === null || this.#oldGradients.get(name) !== gradientNode) continue;
        this.keptGradients.push({ step: this.updates + 1, name });
      }
    }
    this.#backwards++;
    this.#await('loss', 'loss', loss);
  }

  /** Makes an update of an optimizer, and records gradients before it and parameters after it. */
  async step(optimizer: Optimizer, update: () => Promise<boolean>): Promise<boolean> {
    if (this.#isInStep || this.#models.length === 0) return update();
    this.#isInStep = true;
    try {
      const step = this.updates + 1;
      const own = new Set<Tensor>(optimizer.paramGroups.flatMap(({ params }) => params));
      const isOwn = (parameter: Tensor): boolean => own.has(parameter) || own.has(parameter.part);
      await this.#readAwaited(step);
      await this.#readGradients(step, isOwn);
      const updated = await update();
      this.backwards.push(this.#backwards);
      this.#backwards = 0;
      this.#calls.clear();
      this.#oldGradients.clear();
      for (const [name, parameter] of this.#parameters()) {
        this.#oldGradients.set(name, parameter.part.gradientNode);
      }
      await this.#readModels('parameter', step, isOwn);
      return updated;
    } finally {
      this.#isInStep = false;
    }
  }

  finish(about: Pick<RankRecord, 'plan' | 'leaves' | 'places'>): RankRecord {
    const { values, passes, backwards, keptGradients, classes } = this;
    return { ...about, values, passes, backwards, keptGradients, classes };
  }

  *#parameters(): Generator<readonly [string, Tensor]> {
    for (const [index, model] of this.#models.entries()) {
      const prefix = index === 0 ? '' : `model ${index + 1}: `;
      for (const [name, parameter] of model.namedParameters())
        yield [`${prefix}${name}`, parameter];
    }
  }

  #await(kind: RecordedKind, name: string, value: unknown): void {
    if (!isGradEnabled()) return;
    const tensors: Tensor[] = [];
    forEachTensor(value, (tensor) => tensors.push(tensor));
    for (const [index, tensor] of tensors.entries()) {
      const full = tensors.length === 1 ? name : `${name} (output ${index})`;
      const { part, microbatch } = this;
      const key = JSON.stringify([kind, full, part, microbatch]);
      const call = this.#calls.get(key) ?? 0;
      this.#calls.set(key, call + 1);
      if (tensor.node.value === null) tensor.retain();
      this.#awaited.push({ kind, name: full, call, part, microbatch, tensor });
    }
  }

  async #readAwaited(step: number): Promise<void> {
    const awaited = this.#awaited.splice(0);
    const passes = this.#awaitedPasses.splice(0);
    await currentSession().realize([]);
    for (const { tensors, ...pass } of passes) {
      const inputs: string[] = [];
      for (const tensor of tensors) inputs.push(await hashOfTensor(tensor));
      this.passes.push({ ...pass, inputs });
    }
    for (const { tensor, ...about } of awaited) {
      // Each rank builds the passes of all stages, and keeps what its own make.
      const { value } = tensor.node;
      const isOfStage = value !== null && value.kind !== 'freed';
      if (this.#inMicrobatches && about.microbatch !== null && !isOfStage) continue;
      this.values.push(await recorded({ ...about, step }, tensor, tensor));
    }
  }

  async #readGradients(step: number, isOwn: (parameter: Tensor) => boolean): Promise<void> {
    for (const [name, parameter] of this.#parameters()) {
      const { part } = parameter;
      if (!isOwn(parameter) || !isHeldAt(part.layout, ownPlace)) continue;
      const { grad } = part;
      if (grad === null) continue;
      this.values.push(await recorded({ kind: 'gradient', name, step, ...once }, grad, part));
    }
  }

  async #readModels(
    kind: 'initial' | 'parameter',
    step: number,
    isOwn: (parameter: Tensor) => boolean,
  ): Promise<void> {
    for (const [name, parameter] of this.#parameters()) {
      const { part } = parameter;
      if (!isOwn(parameter) || !isHeldAt(part.layout, ownPlace)) continue;
      this.values.push(await recorded({ kind, name, step, ...once }, part, part));
    }
    for (const [index, model] of this.#models.entries()) {
      const prefix = index === 0 ? '' : `model ${index + 1}: `;
      for (const [name, buffer] of model.namedBuffers()) {
        const about = { kind: 'buffer' as const, name: `${prefix}${name}`, step, ...once };
        this.values.push(await recorded(about, buffer, buffer));
      }
    }
  }
}

/** The place of a value that there is once in a step. */
const once = { call: 0, part: null, microbatch: null } as const;

/** How far the random numbers of this rank have got. */
function drawn(): string {
  const { counter, generator } = randomState();
  return `${counter} ${generator.position} ${generator.words[0]}`;
}

async function hashOfTensor(tensor: Tensor): Promise<string> {
  const { shape, dtype } = tensor;
  const data = await tensor.data();
  return `${dtype} ${shape.join()} ${hashOf(Array.from<unknown, string>(data, String).join())}`;
}

/** Reads a tensor. `kept` is the parameter whose layout it has. */
async function recorded(about: ValuePlace, tensor: Tensor, kept: Tensor): Promise<RecordedValue> {
  const types = tensor.node.axisTypes?.byAxis ?? new Map<string, string>();
  const of = (type: string): string[] =>
    [...types].flatMap(([axis, own]) => (own === type ? [axis] : []));
  const isPart =
    about.kind === 'gradient' || about.kind === 'parameter' || about.kind === 'initial';
  return {
    ...about,
    shape: [...tensor.shape],
    dtype: tensor.dtype,
    elements: await elementsOf(tensor),
    whole: isPart ? { layout: kept.layout, shape: [...kept.wholeShape] } : null,
    varying: of('varying'),
    partial: of('partial'),
  };
}

async function elementsOf(tensor: Tensor): Promise<Elements> {
  const isHalf = tensor.dtype === 'f16' || tensor.dtype === 'bf16';
  const data = await (isHalf ? noGrad(() => tensor.detach().to('f32')) : tensor).data();
  if (data instanceof Float32Array || data instanceof Int32Array) return data.slice();
  if (data instanceof BigInt64Array || data instanceof Uint8Array) return data.slice();
  return Float32Array.from(data);
}
