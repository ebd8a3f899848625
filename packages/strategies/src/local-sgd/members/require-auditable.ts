import type { Plan } from '@shardwise/core/extend';
import { planError } from '../../plan/plan-error.ts';
import type { Every } from './meeting-times.ts';
import type { Members } from './members.ts';
import type { AuditOptions } from './audit-options.ts';

/** The options of outer steps that decide whether others can make an update again. */
interface AuditedSettings {
  readonly audit: AuditOptions | null;
  readonly members: Members | null;
  readonly every: Every;
  readonly fragments: readonly unknown[];
  readonly fragmentSyncDelay: number;
  readonly fragmentUpdateAlpha: number;
}

/** Throws LayoutError for updates that follow from more than the state of the run and the samples. */
export function requireAuditable(settings: AuditedSettings, plan: Plan): void {
  const { audit, members, every, fragments } = settings;
  const { fragmentSyncDelay: delay, fragmentUpdateAlpha } = settings;
  if (audit === null) return;
  const asked = 'updates that others make again (`audit`)';
  const refuse = (found: string, todo: string): never => {
    throw planError(plan, { asked, found, todo });
  };
  if (members?.audits === undefined) {
    refuse('no members who do so', 'Give `members` what join() of shardwise/together returns');
  }
  if (every === 1) refuse('rounds of one update', 'Use an `every` of 2 or more');
  if (fragments.length > 1) {
    refuse(
      `${fragments.length} fragments, of which only one begins a round with the state of the run`,
      'Use one fragment',
    );
  }
  if (delay > 0) {
    refuse(
      `a fragmentSyncDelay of ${delay}, with which a round begins with updates that follow from the one before`,
      'Leave it out',
    );
  }
  if (fragmentUpdateAlpha > 0) {
    refuse(
      `a fragmentUpdateAlpha of ${fragmentUpdateAlpha}, by which a member keeps values of its own`,
      'Leave it out',
    );
  }
}
