import {
  axisOf,
  broadcast,
  checkOptions,
  ConfigError,
  currentSession,
  formatShape,
  LayoutError,
  type Model,
  type Module,
  noGrad,
  option,
  type OptionRules,
  type ParallelModel,
  Parameter,
  type ParameterSpec,
  type Plan,
  type ProcessGroup,
  randomState,
  setRandomState,
  type Strategy,
  synchronously,
  type Tensor,
} from '@shardwise/core/extend';
import { requireUnaveraged } from '../averaged-parameters.ts';
import { KnownParameters } from '../known-parameters.ts';
import { requireSameModel } from '../same-model.ts';
import { inLayer } from './in-layer.ts';
import { matchesModule } from './module-pattern.ts';
import type { AxisPlace } from './parallel-style.ts';
import { takePart, type Partition } from './partition.ts';
import { PartitionedParameter } from './partitioned-parameter.ts';
import {
  cutModules,
  partitionsOf,
  type StylePlan,
  tensorParallelPlan,
} from './tensor-parallel-plan.ts';
import { wrapMethod } from './wrap-method.ts';

export interface TensorParallelOptions {
  /** The mesh axis whose ranks share out each layer; they are given the same batch. Default: `tp`. */
  readonly axis?: string;
  /** Tokens of a rank's batch, for the bytes in the plan. Default: 1. */
  readonly tokens?: number;
}

const tensorParallelRules: OptionRules<TensorParallelOptions> = {
  axis: option.axisName,
  tokens: option.integer(1),
};

/**
 * Tensor and sequence parallelism (Shoeybi et al. 2019; Korthikanti et al. 2022) as a strategy: a
 * style for each module that a pattern names, as PyTorch's parallelize_module. Between styled modules
 * activations are the same on all ranks of the axis, unless the styles say otherwise.
 *
 *     tensorParallel({ 'blocks.*.up': colwiseParallel(), 'blocks.*.down': rowwiseParallel() })
 *
 * Applying it makes rank 0's parameters, buffers and keys of random numbers those of all ranks of the axis.
 */
export function tensorParallel(
  styles: StylePlan,
  options: TensorParallelOptions = {},
): Strategy<Module> {
  checkOptions('tensorParallel', options, tensorParallelRules);
  const { axis = 'tp', tokens = 1 } = options;
  return {
    name: 'tensor-parallel',
    plan: (parameters, axes): Plan =>
      tensorParallelPlan(styles, parameters, axes, { axis, tokens }),
    async apply(plan, model) {
      await partitionModel(model, styles, plan.parameters, axis);
      return new TensorParallelModel(model);
    },
  };
}

/** A model whose layers the ranks of an axis share out. */
class TensorParallelModel<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
> implements ParallelModel<M, Inputs, Output> {
  readonly module: M & Model<Inputs, Output>;

  readonly #known: KnownParameters;

  constructor(module: M & Model<Inputs, Output>) {
    this.module = module;
    this.#known = new KnownParameters('tensor parallelism', module);
  }

  /** Throws ConfigError for a model that parameters were put into since. */
  forward(...inputs: Inputs): Output {
    this.#known.check();
    return this.module.forward(...inputs);
  }

  /** All communication is part of the passes themselves: there is none to leave out. */
  noSync<T>(body: () => T): T {
    return synchronously('noSync', body);
  }
}

async function partitionModel(
  model: Module,
  styles: StylePlan,
  specs: readonly ParameterSpec[],
  axis: string,
): Promise<void> {
  const { mesh } = currentSession();
  const place = axisOf(mesh, axis);
  const styled = modulesOf(model, styles);
  for (const { path, module, style } of styled) style.check?.(module, path);
  const partitions = partitionsOf(styles, specs, place.size);
  const named = model.namedParameters();
  checkNotCut(named, partitions);
  requireUnaveraged('tensor parallelism of a model', named);
  const buffers = model.namedBuffers();
  const tensors: (readonly [string, Tensor])[] = [...named, ...buffers];
  const group = mesh.group(axis);
  await requireSameModel(tensors, group);
  await shareKeys(group);
  const cut = new Map<string, PartitionedParameter>();
  for (const [name, parameter] of named) {
    const partition = partitions.get(name);
    if (partition === undefined) {
      shareValues(parameter, axis);
      continue;
    }
    const replacement = await partitioned(parameter, partition, place);
    model.replaceParameter(parameter, replacement);
    cut.set(name, replacement);
  }
  for (const [, buffer] of buffers) shareValues(buffer, axis);
  const layers = cutModules(styles, specs, place.size);
  for (const { path, module, style } of styled) {
    style.install(module, place, path);
    const layer = layers.find((each) => each.path === path && each.style === style);
    if (layer === undefined) continue;
    const own = layer.parameters.map((name) => cut.get(name) ?? null);
    for (const method of style.methods ?? ['forward']) {
      wrapMethod(module, method, (inputs, run) => inLayer(own, () => run(inputs)));
    }
  }
}

/** Throws ConfigError where another strategy comes first whose parts can't be cut. */
function checkNotCut(
  named: readonly (readonly [string, Parameter])[],
  partitions: ReadonlyMap<string, Partition>,
): void {
  const cut = named.find(([name, { part }]) => part.shardedOver.length > 0 && partitions.has(name));
  if (cut === undefined) return;
  const [name, { part }] = cut;
  const { shape } = part.extent;
  throw new ConfigError(
    {
      asked: `tensor parallelism of '${name}' of shape ${formatShape(shape)}`,
      found: `a strategy was applied to this model before: this rank has a part of shape ${formatShape(part.shape)}, shared out over '${part.shardedOver.join("' × '")}'`,
      todo: 'Apply tensor parallelism first, once, as in compose(tensorParallel(styles), fsdp())',
    },
    { parameter: name, shape, shardedOver: part.shardedOver },
  );
}

/** Throws LayoutError for a pattern that names no module. */
function modulesOf(
  model: Module,
  styles: StylePlan,
): { path: string; module: Module; style: StylePlan[string] }[] {
  const modules = model.namedModules();
  return Object.entries(styles).flatMap(([pattern, style]) => {
    const matching = modules.filter(([path]) => matchesModule(pattern, path));
    if (matching.length > 0) return matching.map(([path, module]) => ({ path, module, style }));
    throw new LayoutError(
      {
        asked: `${style.name}() of '${pattern}'`,
        found: `no module of this name; there are ${modules
          .slice(1, 8)
          .map(([path]) => path)
          .join(', ')}, …`,
        todo: 'Name modules of the model; * stands for one name',
      },
      { pattern },
    );
  });
}

/** Of what was constructed in parts, all ranks have drawn the same values. */
function shareValues(tensor: Tensor, axis: string): void {
  if (tensor instanceof Parameter && tensor.initialPart !== null) return;
  const { part } = tensor;
  noGrad(() => part.assign(broadcast(part, axis)));
}

async function partitioned(
  parameter: Parameter,
  partition: Partition,
  { axis, size, rank }: AxisPlace,
): Promise<PartitionedParameter> {
  const { shape: wholeShape, dtype, requiresGrad, initialPart } = parameter;
  const options = { partition, wholeShape, axis, size, index: rank, dtype, requiresGrad };
  if (initialPart !== null) {
    const replacement = new PartitionedParameter(null, options);
    replacement.initialPart = initialPart;
    return replacement;
  }
  const part = noGrad(() => takePart(broadcast(parameter, axis), partition, size, rank));
  const data = (await part.data()).slice();
  const replacement = new PartitionedParameter(data, options);
  part.dispose();
  parameter.dispose();
  return replacement;
}

/** What ranks draw for values that all have must be equal. */
async function shareKeys(group: ProcessGroup): Promise<void> {
  const state = randomState();
  const keys = Int32Array.of(state.seed, state.counter);
  await group.broadcast({ bytes: new Uint8Array(keys.buffer), dtype: 'i32' }, 0);
  const [seed = 0, counter = 0] = keys;
  setRandomState({ ...state, seed, counter });
}
