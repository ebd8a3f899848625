import { nn } from '@shardwise/core';
import {
  concat,
  ConfigError,
  Dropout,
  type Gate,
  MixtureOfExperts,
  type Module,
  randomState,
  type Routing,
  setRandomState,
  Tensor,
  withBatchPart,
} from '@shardwise/core/extend';
import { wrapMethod } from '@shardwise/strategies';
import { joinOutputs, rowsOf } from './by-parts.ts';
import type { RecordedPass } from './records.ts';

// What modules of one rank do for the parts of the batch one after the other, because ranks do it each for its own.

/** The passes of the ranks that the present one stands for. Null: it stands for none. */
export type PassesNow = () => readonly RecordedPass[] | null;

/** Whether a model needs the rows of all parts of the batch at once, because its ranks count them together. */
export function mixesRows(model: Module): boolean {
  return model
    .namedModules()
    .some(
      ([, module]) =>
        module instanceof nn.SyncBatchNorm ||
        (module instanceof MixtureOfExperts && balancesAll(module)),
    );
}

/** Whether each rank decides something by its own rows: which routes are dropped, and the balance of its experts. */
export function decidesByPart(model: Module): boolean {
  return expertsOf(model).some(
    (layer) => dropsRoutes(layer.gate) || (layer.balance !== null && !balancesAll(layer)),
  );
}

function expertsOf(model: Module): readonly MixtureOfExperts[] {
  return model
    .namedModules()
    .flatMap(([, module]) => (module instanceof MixtureOfExperts ? [module] : []));
}

function balancesAll({ balance, axes }: MixtureOfExperts): boolean {
  return balance !== null && axes.length > 0;
}

/** Whether the routes of a token depend on other tokens. */
function dropsRoutes(gate: Gate): boolean {
  // Without a limit, all tokens may go to one expert.
  const many = 2 ** 20;
  return gate.k === null || gate.mostRoutes(many, 2 ** 10, true) < many;
}

/**
 * Has modules work for the parts of the batch one after the other while `passesNow` returns passes, as byParts does for
 * whole passes. It is for models that mix rows. Throws ConfigError for layers of experts of which this cannot be said.
 */
export function workByParts(model: Module, passesNow: PassesNow): void {
  for (const [, module] of model.namedModules()) {
    if (module instanceof Dropout) dropByParts(module, passesNow);
    if (module instanceof MixtureOfExperts) routeByParts(module, passesNow);
  }
}

function dropByParts(module: Dropout, passesNow: PassesNow): void {
  wrapMethod(module, 'forward', (inputs, forward) => {
    const [x] = inputs;
    const passes = passesNow();
    if (passes === null || passes.length < 2 || !(x instanceof Tensor)) return forward(inputs);
    const outputs = eachPart(x.shape[0] ?? 0, passes, (start, stop, rows) => ({
      output: forward([x.slice(0, start, stop)]),
      rows,
    }));
    return joinOutputs(outputs);
  });
}

function routeByParts(layer: MixtureOfExperts, passesNow: PassesNow): void {
  const { gate } = layer;
  if (gate.jitter > 0) {
    throw new ConfigError({
      asked: 'to verify a layer of experts with jitter, in a model whose ranks count rows together',
      found: 'one rank cannot draw the jitter of each rank',
      todo: 'Verify it with jitter: 0, or without axes of the balance loss',
    });
  }
  const parts = (tokens: number): readonly RecordedPass[] | null => {
    const passes = passesNow();
    return passes === null || passes.length < 2 || tokens === 0 ? null : passes;
  };
  const own: Gate = {
    ...gate,
    check: (experts) => gate.check(experts),
    mostRoutes: (tokens, experts, training) => {
      const passes = parts(tokens);
      if (passes === null) return gate.mostRoutes(tokens, experts, training);
      const each = eachPart(tokens, passes, (start, stop) =>
        gate.mostRoutes(stop - start, experts, training),
      );
      return each.reduce((sum, most) => sum + most, 0);
    },
    route: (input) => {
      const tokens = input.logits.shape[0] ?? 0;
      const passes = parts(tokens);
      if (passes === null) return gate.route(input);
      return joinRoutes(
        eachPart(tokens, passes, (start, stop) => routesOf(gate, input, start, stop)),
      );
    },
  };
  Object.assign(layer, { gate: own });
}

/** The routes of a range of tokens. */
function routesOf(
  gate: Gate,
  input: Parameters<Gate['route']>[0],
  start: number,
  stop: number,
): Routing {
  const routing = gate.route({ ...input, logits: input.logits.slice(0, start, stop) });
  return { ...routing, tokens: routing.tokens.add(start) };
}

function joinRoutes(parts: readonly Routing[]): Routing {
  const join = (of: (routing: Routing) => Tensor): Tensor => concat(parts.map(of), 0);
  const kept = parts.flatMap((part) => part.kept ?? []);
  return {
    tokens: join(({ tokens }) => tokens),
    experts: join(({ experts }) => experts),
    weights: join(({ weights }) => weights),
    kept: kept.length === 0 ? null : concat(kept, 0),
    shares: join(({ shares }) => shares),
  };
}

/** Calls `work` for the rows of each part, with the random numbers that its rank drew. */
function eachPart<T>(
  count: number,
  passes: readonly RecordedPass[],
  work: (start: number, stop: number, rows: number) => T,
): readonly T[] {
  const rows = passes.reduce((sum, pass) => sum + rowsOf(pass), 0);
  const before = randomState();
  let start = 0;
  return passes.map((pass, part) => {
    setRandomState(before);
    const first = start;
    start += (count / rows) * rowsOf(pass);
    return withBatchPart(part, () => work(first, start, rowsOf(pass)));
  });
}

/**
 * Has layers of experts give the mean over the parts of the batch of their auxiliary losses, where one rank passes the
 * parts one after the other and the program takes the losses after the pass. `partsNow` returns the number of parts of
 * the latest pass, and 1 inside of a pass.
 */
export function averageAuxiliaryLosses(model: Module, partsNow: () => number): void {
  for (const layer of expertsOf(model)) {
    wrapMethod(layer, 'takeAuxiliaryLoss', (inputs, take) => {
      const loss = take(inputs);
      return loss instanceof Tensor ? loss.mul(1 / partsNow()) : loss;
    });
  }
}
