import type { StepFigures } from './metric-sink.ts';

/**
 * The last figures of a run in Prometheus' text format 0.0.4, as its node exporter reads from files. Figures that agree
 * in the letters, digits and underscores of their names are told apart by the label `metric`, which has the whole name.
 */
export function prometheusText(run: string, { step, figures }: StepFigures): string {
  const entries = Object.entries({ step, ...figures });
  const byName = Map.groupBy(entries, ([name]) => metricName(name));
  return [...byName]
    .map(([name, all]) => {
      const samples = all.map(
        ([metric, value]) =>
          `${name}{run="${escaped(run)}",metric="${escaped(metric)}"} ${numberText(value)}\n`,
      );
      return `# HELP ${name} The last value that the run has reported.\n# TYPE ${name} gauge\n${samples.join('')}`;
    })
    .join('');
}

/** `learningRate` becomes `shardwise_learning_rate`, and other characters become underscores. */
function metricName(name: string): string {
  const words = name.replaceAll(/([a-z\d])([A-Z])/g, '$1_$2').toLowerCase();
  return `shardwise_${words.replaceAll(/[^a-z\d_]+/g, '_')}`;
}

function escaped(label: string): string {
  return label.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (Number.isFinite(value)) return String(value);
  return value > 0 ? '+Inf' : '-Inf';
}
