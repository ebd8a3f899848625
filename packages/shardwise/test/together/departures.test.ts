import { it } from 'vitest';
import { expectUndisturbed } from './departures.ts';

it('200 random departures and arrivals in a run of 8 end with all members training, with equal states after every round, and with no update that counts twice', async () => {
  await expectUndisturbed(3);
});

it('they do so with messages that overlap updates', async () => {
  await expectUndisturbed(4, { overlap: true, events: 40 });
});
