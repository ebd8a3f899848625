import { elementCount, formatShape, dtypes, type Layout, type Plan } from '@shardwise/core';

/** A layout as text: `replicate`, `shard(0: dp)`, `partial(dp)`. */
export function formatLayout(layout: Layout): string {
  const shards = layout.dims.flatMap((axes, dim) =>
    axes.length > 0 ? [`shard(${dim}: ${axes.join('·')})`] : [],
  );
  const partial = layout.partial.length > 0 ? [`partial(${layout.partial.join('·')})`] : [];
  return [...shards, ...partial].join(' ') || 'replicate';
}

/** Bytes of a value on one rank, rounded up where a dim does not divide. */
function localBytes(
  shape: readonly number[],
  bytesPerElement: number,
  layout: Layout,
  sizes: ReadonlyMap<string, number>,
): number {
  const local = shape.map((size, dim) => {
    const parts = (layout.dims[dim] ?? []).reduce(
      (product, axis) => product * (sizes.get(axis) ?? 1),
      1,
    );
    return Math.ceil(size / parts);
  });
  return elementCount(local) * bytesPerElement;
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? '').length)),
  );
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function countOf(parameters: number): string {
  return parameters === 1 ? '1 parameter' : `${parameters} parameters`;
}

/** A plan as tables: how each parameter and its gradient lie, and what a step communicates. Bytes are per rank. */
export function explain(plan: Plan): string {
  const sizes = new Map(plan.axes.map(({ name, size }) => [name, size]));
  const mesh = plan.axes.map(({ name, size }) => `${name}=${size}`).join(' × ');
  let parameterBytes = 0;
  let gradientBytes = 0;
  const parameters = plan.parameters.map((p) => {
    const unit = dtypes[p.dtype].bytes;
    const bytes = localBytes(p.shape, unit, p.parameter, sizes);
    parameterBytes += bytes;
    if (p.requiresGrad) gradientBytes += localBytes(p.shape, unit, p.gradient, sizes);
    return [
      p.name,
      p.dtype,
      formatShape(p.shape),
      formatLayout(p.parameter),
      p.requiresGrad ? formatLayout(p.gradient) : 'frozen',
      String(bytes),
    ];
  });
  const collectives = plan.collectives.map((c) => [
    c.when,
    c.operation,
    c.axis,
    countOf(c.parameters.length),
    String(c.bytes),
  ]);
  const traffic =
    collectives.length === 0
      ? 'no communication'
      : table([['when', 'collective', 'axis', 'of', 'bytes'], ...collectives]);
  return [
    `${plan.strategy} on ${mesh || 'one rank'}; batch: ${formatLayout(plan.batch)}`,
    '',
    table([['parameter', 'dtype', 'shape', 'layout', 'gradient', 'bytes'], ...parameters]),
    '',
    traffic,
    '',
    `per rank: ${parameterBytes} bytes of parameters, ${gradientBytes} bytes of gradients`,
  ].join('\n');
}
