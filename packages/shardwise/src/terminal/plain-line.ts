import { timeLeft, tokensPerSecond, type RunState } from '../run-state/run-state.ts';
import { formatCount, formatLoss, formatMetric, formatMilliseconds } from '../text/format.ts';

/** Returns the last step as one line without escape codes. Returns undefined before the first step. */
export function plainLine(state: RunState): string | undefined {
  const { latest, totalSteps } = state;
  if (latest === undefined) return undefined;
  const rate = tokensPerSecond(state);
  const { loss, validationLoss, stepMs, computeMs, communicationMs, dataMs } = latest;
  const split = `compute ${formatMilliseconds(computeMs)}, communication ${formatMilliseconds(communicationMs)}, data ${formatMilliseconds(dataMs)}`;
  const parts = [
    `step ${latest.step}${totalSteps === undefined ? '' : `/${totalSteps}`}`,
    loss === undefined ? '' : `loss ${formatLoss(loss)}`,
    validationLoss === undefined ? '' : `validation ${formatLoss(validationLoss)}`,
    ...Object.entries(latest.metrics).map(([name, value]) => `${name} ${formatMetric(value)}`),
    rate === undefined ? '' : `${formatCount(rate)} tokens/s`,
    `${formatMilliseconds(stepMs)} (${split})`,
    timeLeft(state) ?? '',
  ];
  return parts.filter((part) => part !== '').join('  ');
}
