import { type Code, f32x4 } from '@shardwise/wasm-assembler';
import { floats, type RowProgram, type Rows, type Vector } from './rows.ts';

/** The kind of a norm. layerNorm centres rows at their mean, and rmsNorm does not centre them. */
export type Norm = 'layerNorm' | 'rmsNorm';

/** What the pass that computes dx also computes. */
export interface NormGradParts {
  /** Whether a residual is added to dx. */
  readonly residual: boolean;
  /** Whether it sums dy x̂ over rows. */
  readonly weight: boolean;
  /** Whether it sums dy over rows. */
  readonly bias: boolean;
}

/** The statistics that normalize a row: x̂ = (x - mean) rstd. */
interface Statistics {
  readonly rstd: Vector;
  readonly centred: (x: Vector) => Code<'v128'>;
}

function mean<A>(rows: Rows<A>, norm: Norm, x: A): Vector | undefined {
  if (norm === 'rmsNorm') return undefined;
  const [sum = rows.fn.float(0)] = rows.fold(['sum'], (at) => [at.load(x)]);
  return rows.mean(sum);
}

function centring(centre: Vector | undefined): Statistics['centred'] {
  return (x) => (centre ? f32x4.sub(x, centre) : x);
}

/** 1 / sqrt(mean of squares + eps). */
function reciprocalDeviation<A>(rows: Rows<A>, squares: Vector, eps: number): Vector {
  const { fn } = rows;
  const variance = rows.mean(squares);
  return fn.let(f32x4.div(fn.float(1), f32x4.sqrt(f32x4.add(variance, fn.float(eps)))));
}

function statistics<A>(rows: Rows<A>, norm: Norm, x: A, eps: number): Statistics {
  const centred = centring(mean(rows, norm, x));
  const [squares = rows.fn.float(0)] = rows.fold(['sum'], (at) => {
    const d = rows.fn.let(centred(at.load(x)));
    return [f32x4.mul(d, d)];
  });
  return { rstd: reciprocalDeviation(rows, squares, eps), centred };
}

/** y = x̂ weight + bias. Addresses: x, weight, bias of layerNorm, y. */
export function normalize(norm: Norm, eps: number): RowProgram {
  const hasBias = norm === 'layerNorm';
  return {
    operands: floats(hasBias ? 4 : 3),
    write: (rows) => {
      const [x, weight, bias] = [rows.address(0), rows.address(1), rows.address(2)];
      const y = rows.address(hasBias ? 3 : 2);
      rows.eachRow([x, y], () => {
        const { rstd, centred } = statistics(rows, norm, x, eps);
        rows.each((at) => {
          const scaled = f32x4.mul(f32x4.mul(centred(at.load(x)), rstd), at.load(weight));
          at.store(y, hasBias ? f32x4.add(scaled, at.load(bias)) : scaled);
        }, 4);
      });
    },
  };
}

/**
 * dx = rstd (g - mean g - x̂ mean(g x̂)), where g = dy weight. rmsNorm has no mean g.
 * Addresses: x, weight, dy, the residual if there is one, dx, then dweight and dbias if they are wanted.
 */
export function normalizeGrad(norm: Norm, eps: number, parts: NormGradParts): RowProgram {
  const count = [parts.residual, parts.weight, parts.bias].filter(Boolean).length;
  return { operands: floats(4 + count), write: (rows) => writeGrad(rows, norm, eps, parts) };
}

function writeGrad<A>(rows: Rows<A>, norm: Norm, eps: number, parts: NormGradParts): void {
  const { fn } = rows;
  let addresses = 0;
  const next = (): A => rows.address(addresses++);
  const [x, weight, dy] = [next(), next(), next()];
  const residual = parts.residual ? next() : undefined;
  const dx = next();
  const dweight = parts.weight ? next() : undefined;
  const dbias = parts.bias ? next() : undefined;
  for (const sum of [dweight, dbias]) {
    if (sum !== undefined) rows.each((at) => at.store(sum, fn.float(0)), 4);
  }
  rows.eachRow([x, dy, dx, ...(residual === undefined ? [] : [residual])], () => {
    const centred = centring(mean(rows, norm, x));
    const [squares = fn.float(0), products = fn.float(0), gradients = fn.float(0)] = rows.fold(
      norm === 'layerNorm' ? ['sum', 'sum', 'sum'] : ['sum', 'sum'],
      (at) => {
        const d = fn.let(centred(at.load(x)));
        const g = fn.let(f32x4.mul(at.load(dy), at.load(weight)));
        const terms = [f32x4.mul(d, d), f32x4.mul(g, d)];
        return norm === 'layerNorm' ? [...terms, g] : terms;
      },
    );
    const rstd = reciprocalDeviation(rows, squares, eps);
    const slope = fn.let(f32x4.mul(f32x4.mul(rstd, rstd), rows.mean(products)));
    const shift = norm === 'layerNorm' ? rows.mean(gradients) : undefined;
    rows.each((at) => {
      const gradient = at.load(dy);
      const d = fn.let(centred(at.load(x)));
      const projected = f32x4.sub(f32x4.mul(gradient, at.load(weight)), f32x4.mul(d, slope));
      const scaled = f32x4.mul(shift ? f32x4.sub(projected, shift) : projected, rstd);
      at.store(dx, residual === undefined ? scaled : f32x4.add(at.load(residual), scaled));
      if (dweight !== undefined) {
        const part = f32x4.mul(f32x4.mul(d, rstd), gradient);
        at.store(dweight, f32x4.add(at.load(dweight), part));
      }
      if (dbias) at.store(dbias, f32x4.add(at.load(dbias), gradient));
    }, 2);
  });
}

/** dweight = Σ over rows of dy x̂. Addresses: x, dy, dweight. */
export function normalizeWeightGrad(norm: Norm, eps: number): RowProgram {
  return {
    operands: floats(3),
    write: (rows) => {
      const { fn } = rows;
      const [x, dy, dweight] = [rows.address(0), rows.address(1), rows.address(2)];
      rows.each((at) => at.store(dweight, fn.float(0)));
      rows.eachRow([x, dy], () => {
        const { rstd, centred } = statistics(rows, norm, x, eps);
        rows.each((at) => {
          const normalized = f32x4.mul(centred(at.load(x)), rstd);
          at.store(dweight, f32x4.add(at.load(dweight), f32x4.mul(normalized, at.load(dy))));
        }, 2);
      });
    },
  };
}
