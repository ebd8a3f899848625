import {
  type CollectivePlan,
  dtypes,
  LayoutError,
  MixtureOfExperts,
  type ParameterSpec,
  type Tensor,
} from '@shardwise/core/extend';
import { requireModule } from '../tensor-parallel/module-spec.ts';
import type { AxisPlace, ModuleSpec, ParallelStyle } from '../tensor-parallel/parallel-style.ts';
import { requireTensor, wrapMethod } from '../tensor-parallel/wrap-method.ts';
import { exchangeRoutes, type RouteRoom } from './exchange-routes.ts';

const name = 'expertParallel';

/** The names, within a layer, of the parameters that have one matrix for each expert. */
const perExpert = ['experts.up', 'experts.gate', 'experts.down'] as const;

/** Whether the parameters of a module look like those of a layer of experts. */
export function looksLikeExperts({ parameters }: ModuleSpec): boolean {
  const isMatrices = (each: string): boolean => parameters.get(each)?.shape.length === 3;
  return (
    isMatrices('experts.up') && isMatrices('experts.down') && routerOf(parameters) !== undefined
  );
}

/** The weight of a layer's router, which Mixtral's files call `gate`. */
export function routerOf(parameters: ModuleSpec['parameters']): ParameterSpec | undefined {
  return parameters.get('router.weight') ?? parameters.get('gate.weight');
}

/** How the ranks of one axis exchange rows of experts. */
export interface ExpertExchange {
  /** The number of routes of a token. */
  readonly k: number;
  /** The most tokens that a rank routes. */
  readonly limit: number;
  /**
   * The number of ranks that divide the experts over earlier axes. Rows have been exchanged over these axes before.
   */
  readonly before: number;
}

/** Gives each rank of the axis an equal share of a layer's experts, out of those that earlier axes leave to it. */
export function expertsStyle({ k, limit, before }: ExpertExchange): ParallelStyle {
  return {
    name,
    kind: {
      optional: perExpert,
      check(module, path) {
        const { gate } = requireModule(module, MixtureOfExperts, path, name);
        if (gate.k === null || gate.k === k) return;
        throw new LayoutError(
          {
            asked: `${name}() of '${path}' with k: ${k}`,
            found: `${gate.name} with k: ${gate.k}, which decides how many rows are sent`,
            todo: `Give the plan the k of the gate: ${name}({ k: ${gate.k} })`,
          },
          { path, k, found: gate.k },
        );
      },
    },
    parameters: Object.fromEntries(perExpert.map((own) => [own, { shard: 0 }])),
    inputs: { forward: [] },
    output: null,
    collectives({ path, parameters, productDtype }, tokens) {
      const up = parameters.get('experts.up');
      const [experts = 0, features = 0] = up?.shape ?? [];
      const rows = tokens * k * features * dtypes[productDtype ?? up?.dtype ?? 'f32'].bytes;
      const message = (
        when: CollectivePlan['when'],
        bytes: number,
        of: readonly [string, string],
      ) => ({
        operation: 'allToAll',
        when,
        bytes,
        redistribution: { module: path, from: of[0], to: of[1] },
      });
      const there = ['tokens', 'experts'] as const;
      const back = ['experts', 'tokens'] as const;
      return [
        message('forward', (experts / before) * dtypes.i32.bytes, ['counts', 'experts']),
        message('forward', rows, there),
        message('forward', rows, back),
        message('backward', rows, there),
        message('backward', rows, back),
      ];
    },
    install(module, place, path) {
      const layer = requireModule(module, MixtureOfExperts, path, name);
      if (place.size > 1) exchangeAround(layer, before === 1 ? limit : null, place, path);
      return undefined;
    },
  };
}

/**
 * Exchanges rows around the experts of a layer. `limit` is null if the rows come from other ranks and already have a
 * fixed number.
 */
function exchangeAround(
  layer: MixtureOfExperts,
  limit: number | null,
  place: AxisPlace,
  path: string,
): void {
  const { experts, gate } = layer;
  wrapMethod(experts, 'forward', ([x, counts, own, meanwhile], forward) => {
    const rows = requireTensor(x, path);
    const sizes = requireTensor(counts, path);
    const routes = rows.shape[0] ?? 0;
    const given = typeof own === 'number' ? own : routes;
    const room = limit === null ? { routes, most: given } : roomFor(limit, routes, given);
    const compute = (ownRows: Tensor, ownCounts: Tensor): Tensor => {
      const most = place.size * room.most;
      return requireTensor(forward([ownRows, ownCounts, most, meanwhile]), path);
    };
    return exchangeRoutes(rows, sizes, room, place, compute, () => {
      if (typeof meanwhile === 'function') meanwhile();
    });

    function roomFor(tokens: number, least: number, mostHere: number): RouteRoom {
      const most = gate.mostRoutes(tokens, sizes.numel, layer.training);
      return {
        routes: Math.max(least, gate.k === null ? most * sizes.numel : tokens * gate.k),
        most: Math.max(mostHere, most),
      };
    }
  });
}
