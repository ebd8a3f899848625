import { LayoutError, type LowPrecision, type Module } from '@shardwise/core/extend';
import { castFloats } from '../../mixed-precision/cast-floats.ts';
import { forwardOf, interceptForward } from '../../modules/module-method.ts';
import type { ShardedPlacement } from '../parts/sharded-reader.ts';
import type { AfterForward } from './after-forward.ts';
import type { BackwardOrder } from './backward-order.ts';
import { ShardedUnit } from './sharded-unit.ts';

export interface UnitPlan {
  readonly parameters: readonly ShardedPlacement[];
  readonly afterForward: AfterForward;
}

export interface InstallOptions {
  /** How many units ahead of their use parameters are gathered. */
  readonly prefetch: number;
  readonly lowPrecision: LowPrecision | undefined;
  /**
   * The order of the messages of a backward pass, if ranks may run different units. Each pass then gathers all units, in
   * the order in which the model declares them. Null: each rank gathers the units that it runs.
   */
  readonly backwardOrder: BackwardOrder | null;
}

export interface InstalledUnits {
  readonly units: ReadonlyMap<string, ShardedUnit>;
  /** Begins a pass, which includes all that the model computes until endPass. Units count the gathers of a pass. */
  readonly beginPass: () => void;
  readonly endPass: () => void;
}

/** Throws LayoutError for a unit that is not a module, and ConfigError for one without forward pass. */
export function checkUnits(model: Module, names: Iterable<string>): void {
  const modules = new Map(model.namedModules());
  for (const name of names) forwardOf(moduleOf(modules, name));
}

/**
 * Makes the units of a model gather their parameters. The keys of `plans` and of the returned units are the names of
 * the units' modules.
 */
export function installUnits(
  model: Module,
  plans: ReadonlyMap<string, UnitPlan>,
  { prefetch, lowPrecision, backwardOrder }: InstallOptions,
): InstalledUnits {
  const { castForwardInputs = false, parameterDtype, outputDtype } = lowPrecision ?? {};
  const inputDtype = castForwardInputs ? parameterDtype : undefined;
  const modules = new Map(model.namedModules());
  const units = new Map<string, ShardedUnit>();
  // The order of the latest forward pass. Before the first one, the order in which units were declared.
  let order: ShardedUnit[] = [];
  let running: ShardedUnit[] = [];
  let isRunning = false;
  let isPass = false;
  const begin = (): void => {
    for (const unit of units.values()) unit.begin();
  };
  const releaseAll = (): void => {
    for (const unit of units.values()) if (!unit.keeps) unit.release();
  };
  const neighbours = (unit: ShardedUnit, step: 1 | -1): ShardedUnit[] => {
    const at = order.indexOf(unit);
    if (at < 0) return [];
    const count = Math.max(0, prefetch);
    return Array.from({ length: count }, (_, i) => order[at + step * (i + 1)]).filter(
      (other) => other !== undefined,
    );
  };
  for (const [name, { parameters, afterForward }] of plans) {
    const unit: ShardedUnit = new ShardedUnit({
      name,
      parameters,
      afterForward,
      onBackward: () => {
        if (backwardOrder?.reach(unit) === true) return;
        unit.collectAgain();
        for (const earlier of neighbours(unit, -1)) earlier.collectAgain();
      },
    });
    units.set(name, unit);
    if (name !== '') order.push(unit);
  }
  const root = units.get('');
  const forwardOrder = backwardOrder === null ? null : new ForwardOrder(root, order, prefetch);
  const inBackward = [...(root === undefined ? [] : [root]), ...order.toReversed()];
  backwardOrder?.gatherAgain({ units: inBackward.filter(({ keeps }) => !keeps), prefetch });
  for (const unit of order) {
    interceptForward(moduleOf(modules, unit.name), (forward, inputs) => {
      if (isRunning) running.push(unit);
      else unit.begin();
      const isForAll = isRunning && forwardOrder !== null;
      if (isForAll) forwardOrder.reach(unit);
      return unit.whole(() => {
        if (!isForAll) for (const next of neighbours(unit, 1)) next.collect();
        return forward(castFloats(inputs, inputDtype));
      }, !isForAll);
    });
  }
  interceptForward(model, (forward, inputs) => {
    // The microbatches of a pipeline are one pass. Units that keep their whole parameters gather once for all of them.
    if (!isPass) begin();
    for (const unit of units.values()) if (!unit.keeps || !isPass) unit.release();
    running = [];
    if (forwardOrder !== null) forwardOrder.begin();
    else for (const first of order.slice(0, Math.max(0, prefetch))) first.collect();
    const run = (): unknown => forward(castFloats(inputs, inputDtype));
    isRunning = true;
    try {
      const result = root === undefined ? run() : root.whole(run);
      if (running.length > 0) order = [...new Set(running)];
      forwardOrder?.end();
      return castFloats(result, outputDtype);
    } finally {
      isRunning = false;
      if (forwardOrder !== null) releaseAll();
    }
  });
  return {
    units,
    beginPass() {
      begin();
      for (const unit of units.values()) unit.release();
      isPass = true;
    },
    endPass() {
      isPass = false;
    },
  };
}

function moduleOf(modules: ReadonlyMap<string, Module>, name: string): Module {
  const module = modules.get(name);
  if (module !== undefined) return module;
  throw new LayoutError(
    {
      asked: `to shard the module '${name}' as a unit`,
      found: `no module of this name; there are ${[...modules.keys()].slice(1, 6).join(', ')}, …`,
      todo: 'Have unitOf return names of modules, or an empty text for the whole model',
    },
    { name },
  );
}

/**
 * Gathers all units in each forward pass, in the order in which the model declares them, whether or not this rank runs
 * them. A unit is gathered when the pass comes to it, or to one that follows, or at the end of the pass.
 */
class ForwardOrder {
  readonly #root: ShardedUnit | undefined;
  readonly #units: readonly ShardedUnit[];
  readonly #prefetch: number;
  /** The number of units that the present pass has gathered, besides the root. */
  #gathered = 0;

  /** `root` is the unit of the whole model, and `prefetch` the number of units that are gathered ahead of their use. */
  constructor(root: ShardedUnit | undefined, units: readonly ShardedUnit[], prefetch: number) {
    this.#root = root;
    this.#units = units;
    this.#prefetch = prefetch;
  }

  begin(): void {
    this.#root?.collectForAll();
    this.#gathered = 0;
    this.#gather(this.#prefetch);
  }

  reach(unit: ShardedUnit): void {
    this.#gather(this.#units.indexOf(unit) + 1 + this.#prefetch);
  }

  end(): void {
    this.#gather(this.#units.length);
  }

  #gather(count: number): void {
    for (const unit of this.#units.slice(this.#gathered, count)) unit.collectForAll();
    this.#gathered = Math.max(this.#gathered, count);
  }
}
