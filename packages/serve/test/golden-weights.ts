import { fromData, type nn } from '@shardwise/core';

/** Numbers in [-0.5, 0.5) that depend on a name and on their places, as those of tools/golden-models.py. */
function uniform(name: string, count: number): Float32Array<ArrayBuffer> {
  let seed = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) {
    seed = Math.imul(seed ^ byte, 0x01000193) >>> 0;
  }
  return Float32Array.from({ length: count }, (_, at) => {
    let x = (Math.imul(at, 0x9e3779b9) + seed) >>> 0;
    x = Math.imul(x ^ (x >>> 16), 0x7feb352d) >>> 0;
    x = Math.imul(x ^ (x >>> 15), 0x846ca68b) >>> 0;
    return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32 - 0.5;
  });
}

/** Gives all parameters the values that they have in tools/golden-models.py. */
export async function fill(model: nn.Module): Promise<void> {
  for (const [name, parameter] of model.namedParameters()) {
    const values = uniform(name, parameter.numel);
    const before = parameter.ndim > 1 ? undefined : await parameter.data();
    const own = values.map((value, at) =>
      before === undefined ? value * 0.4 : Number(before[at]) + Math.fround(value * 0.2),
    );
    parameter.assign(fromData(own, parameter.shape, 'f32'));
  }
}
