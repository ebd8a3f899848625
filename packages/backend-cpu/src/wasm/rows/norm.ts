import { type Code, f32x4, type FunctionBuilder, type Local } from '@shardwise/wasm-assembler';
import { RowWriter } from './row-writer.ts';

type Address = Local<'usize'>;
type Vector = Local<'v128'>;

/** Which value rows are centred at. */
export type Norm = 'layerNorm' | 'rmsNorm';

/** What the pass that makes dx takes along. */
export interface NormGradParts {
  /** Added to dx. */
  readonly residual: boolean;
  /** Σ over rows of dy x̂. */
  readonly weight: boolean;
  /** Σ over rows of dy. */
  readonly bias: boolean;
}

/** What normalises a row: x̂ = (x - mean) rstd. */
interface Statistics {
  readonly rstd: Vector;
  readonly centred: (x: Vector) => Code<'v128'>;
}

function mean(writer: RowWriter, norm: Norm, x: Address): Vector | undefined {
  if (norm === 'rmsNorm') return undefined;
  const [sum = writer.fn.float(0)] = writer.fold(['sum'], (at) => [at.load(x)]);
  return writer.mean(sum);
}

function centring(centre: Vector | undefined): Statistics['centred'] {
  return (x) => (centre ? f32x4.sub(x, centre) : x);
}

/** 1 / sqrt(mean of squares + eps). */
function reciprocalDeviation(writer: RowWriter, squares: Vector, eps: number): Vector {
  const { fn } = writer;
  const variance = writer.mean(squares);
  return fn.let(f32x4.div(fn.float(1), f32x4.sqrt(f32x4.add(variance, fn.float(eps)))));
}

function statistics(writer: RowWriter, norm: Norm, x: Address, eps: number): Statistics {
  const centred = centring(mean(writer, norm, x));
  const [squares = writer.fn.float(0)] = writer.fold(['sum'], (at) => {
    const d = writer.fn.let(centred(at.load(x)));
    return [f32x4.mul(d, d)];
  });
  return { rstd: reciprocalDeviation(writer, squares, eps), centred };
}

/** y = x̂ weight + bias. Addresses: x, weight, bias of layerNorm, y. */
export function normalize(norm: Norm, eps: number): FunctionBuilder {
  const hasBias = norm === 'layerNorm';
  const writer = new RowWriter(hasBias ? 4 : 3);
  const [x, weight, bias] = [writer.address(0), writer.address(1), writer.address(2)];
  const y = writer.address(hasBias ? 3 : 2);
  writer.eachRow([x, y], () => {
    const { rstd, centred } = statistics(writer, norm, x, eps);
    writer.each((at) => {
      const scaled = f32x4.mul(f32x4.mul(centred(at.load(x)), rstd), at.load(weight));
      at.store(y, hasBias ? f32x4.add(scaled, at.load(bias)) : scaled);
    }, 4);
  });
  return writer.fn;
}

/**
 * dx = rstd (g - mean g - x̂ mean(g x̂)), g = dy weight; rmsNorm without mean g.
 * Addresses: x, weight, dy, the residual if there is one, dx, then dweight and dbias where wanted.
 */
export function normalizeGrad(norm: Norm, eps: number, parts: NormGradParts): FunctionBuilder {
  const count = [parts.residual, parts.weight, parts.bias].filter(Boolean).length;
  const writer = new RowWriter(4 + count);
  const { fn } = writer;
  let addresses = 0;
  const next = (): Address => writer.address(addresses++);
  const [x, weight, dy] = [next(), next(), next()];
  const residual = parts.residual ? next() : undefined;
  const dx = next();
  const dweight = parts.weight ? next() : undefined;
  const dbias = parts.bias ? next() : undefined;
  for (const sum of [dweight, dbias]) {
    if (sum) writer.each((at) => at.store(sum, fn.float(0)), 4);
  }
  writer.eachRow([x, dy, dx, ...(residual ? [residual] : [])], () => {
    const centred = centring(mean(writer, norm, x));
    const [squares = fn.float(0), products = fn.float(0), gradients = fn.float(0)] = writer.fold(
      norm === 'layerNorm' ? ['sum', 'sum', 'sum'] : ['sum', 'sum'],
      (at) => {
        const d = fn.let(centred(at.load(x)));
        const g = fn.let(f32x4.mul(at.load(dy), at.load(weight)));
        const terms = [f32x4.mul(d, d), f32x4.mul(g, d)];
        return norm === 'layerNorm' ? [...terms, g] : terms;
      },
    );
    const rstd = reciprocalDeviation(writer, squares, eps);
    const slope = fn.let(f32x4.mul(f32x4.mul(rstd, rstd), writer.mean(products)));
    const shift = norm === 'layerNorm' ? writer.mean(gradients) : undefined;
    writer.each((at) => {
      const gradient = at.load(dy);
      const d = fn.let(centred(at.load(x)));
      const projected = f32x4.sub(f32x4.mul(gradient, at.load(weight)), f32x4.mul(d, slope));
      const scaled = f32x4.mul(shift ? f32x4.sub(projected, shift) : projected, rstd);
      at.store(dx, residual ? f32x4.add(at.load(residual), scaled) : scaled);
      if (dweight) {
        const part = f32x4.mul(f32x4.mul(d, rstd), gradient);
        at.store(dweight, f32x4.add(at.load(dweight), part));
      }
      if (dbias) at.store(dbias, f32x4.add(at.load(dbias), gradient));
    }, 2);
  });
  return fn;
}

/** dweight = Σ over rows of dy x̂. Addresses: x, dy, dweight. */
export function normalizeWeightGrad(norm: Norm, eps: number): FunctionBuilder {
  const writer = new RowWriter(3);
  const { fn } = writer;
  const [x, dy, dweight] = [writer.address(0), writer.address(1), writer.address(2)];
  writer.each((at) => at.store(dweight, fn.float(0)));
  writer.eachRow([x, dy], () => {
    const { rstd, centred } = statistics(writer, norm, x, eps);
    writer.each((at) => {
      const normalized = f32x4.mul(centred(at.load(x)), rstd);
      at.store(dweight, f32x4.add(at.load(dweight), f32x4.mul(normalized, at.load(dy))));
    }, 2);
  });
  return fn;
}
