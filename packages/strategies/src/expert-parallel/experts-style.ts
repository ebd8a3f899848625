import { type CollectivePlan, dtypes, LayoutError, MixtureOfExperts } from '@shardwise/core/extend';
import { evenSharding } from '../tensor-parallel/even-sharding.ts';
import { requireModule } from '../tensor-parallel/module-spec.ts';
import type { AxisPlace, ModuleSpec, ParallelStyle } from '../tensor-parallel/parallel-style.ts';
import { requireTensor, wrapMethod } from '../tensor-parallel/wrap-method.ts';
import { exchangeRoutes } from './exchange-routes.ts';

const name = 'expertParallel';

/** Which of a layer's parameters have one matrix for each expert, by their names within the layer. */
const perExpert = ['experts.up', 'experts.gate', 'experts.down'] as const;

/** Whether a module of a model looks like a layer of experts, as far as its parameters tell. */
export function looksLikeExperts({ parameters }: ModuleSpec): boolean {
  const isMatrices = (each: string): boolean => parameters.get(each)?.shape.length === 3;
  return isMatrices('experts.up') && isMatrices('experts.down') && parameters.has('router.weight');
}

/** Each rank of the axis has some of the experts of a layer, as many as the others. A token has k routes, a rank at most `limit` tokens. */
export function expertsStyle(k: number, limit: number): ParallelStyle {
  return {
    name,
    shardings: ({ parameters }, size) =>
      new Map(
        perExpert.flatMap((own) => {
          const parameter = parameters.get(own);
          if (parameter === undefined) return [];
          const { name: full, shape } = parameter;
          return [[own, evenSharding({ name: full, shape, dim: 0, size })] as const];
        }),
      ),
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
        message('forward', experts * dtypes.i32.bytes, ['counts', 'experts']),
        message('forward', rows, there),
        message('forward', rows, back),
        message('backward', rows, there),
        message('backward', rows, back),
      ];
    },
    check(module, path) {
      const { gate } = requireModule(module, MixtureOfExperts, path, name);
      if (gate.k === null || gate.k === k) return;
      throw new LayoutError(
        {
          asked: `${name}() of '${path}' with k: ${k}`,
          found: `${gate.name} with k: ${gate.k}, by which rows travel`,
          todo: `Give the plan the gate's: ${name}({ k: ${gate.k} })`,
        },
        { path, k, found: gate.k },
      );
    },
    install(module, place, path) {
      const layer = requireModule(module, MixtureOfExperts, path, name);
      if (place.size > 1) exchangeAround(layer, limit, place, path);
    },
  };
}

function exchangeAround(
  layer: MixtureOfExperts,
  limit: number,
  place: AxisPlace,
  path: string,
): void {
  const { experts, gate } = layer;
  wrapMethod(experts, 'forward', ([x, counts, own], forward) => {
    const rows = requireTensor(x, path);
    const sizes = requireTensor(counts, path);
    const routes = rows.shape[0] ?? 0;
    const most = gate.mostRoutes(limit, sizes.numel, layer.training);
    const room = {
      routes: Math.max(routes, gate.k === null ? most * sizes.numel : limit * gate.k),
      most: Math.max(typeof own === 'number' ? own : routes, most),
    };
    return exchangeRoutes(rows, sizes, room, place, (ownRows, ownCounts) =>
      requireTensor(forward([ownRows, ownCounts]), path),
    );
  });
}
