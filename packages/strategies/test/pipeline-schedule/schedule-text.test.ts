import {
  activationSlots,
  checkLoweredSchedule,
  lowerSchedule,
  pipelineSchedule,
  readLoweredSchedule,
  readSchedule,
  scheduleNames,
  simulateSchedule,
  writeSchedule,
} from '@shardwise/strategies';
import { ShardwiseError } from '@shardwise/core';
import { describe, expect, it } from 'vitest';
import { generator } from './expect-random-schedules-to-run.ts';
import { golden, linesOf } from './golden-schedules.ts';

describe('a schedule as text', () => {
  it.each(scheduleNames)('is read as it was written: %s', (name) => {
    const schedule = pipelineSchedule(name, { ranks: 3, microbatches: 6 });
    expect(readSchedule(writeSchedule(schedule), { name })).toEqual(schedule);
  });

  it.each(Object.entries(golden.tables))(
    'of PyTorch is read, with its empty cells: %s',
    (_, rows) => {
      const csv = rows
        .map((row, rank) => `${','.repeat(rank)}${row.replaceAll(' ', ',')}`)
        .join('\r\n');
      expect(linesOf(readSchedule(csv))).toEqual(rows);
    },
  );

  it('with messages is read as it was written, also with edges over stages', () => {
    const lowered = lowerSchedule(pipelineSchedule('zbv', { ranks: 3, microbatches: 6 }), {
      activeStages: 2,
      reduceGradients: true,
      edges: [
        { from: 0, to: 1, gradient: true },
        { from: 0, to: 4, gradient: false },
        { from: 1, to: 2, gradient: true },
        { from: 2, to: 3, gradient: true },
        { from: 3, to: 4, gradient: true },
        { from: 4, to: 5, gradient: true },
      ],
    });
    expect(readLoweredSchedule(writeSchedule(lowered), { name: 'zbv' })).toEqual(lowered);
  });

  it('of PyTorch may have its waits, which say when it frees what was sent', () => {
    const read = readLoweredSchedule(
      '0F0,0SEND_F0,0WAIT_SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0',
    );
    expect(linesOf(read)[0]).toBe('0F0 0SEND_F0 0RECV_B0 0B0 0REDUCE_GRAD');
  });

  it.each([
    ['0F0,0X0\n', "row 1, cell 2, '0X0': no action X: there are F, B, I, W, SEND_F"],
    ['0F0,0B0\n1F0,hello', "row 2, cell 2, 'hello': not of the form 2F0"],
    ['0F\n', "row 1, cell 1, '0F': no microbatch behind F"],
    ['0F0,0UNSHARD0\n', "cell 2, '0UNSHARD0': a microbatch, which UNSHARD has not"],
    ['0F0>1\n', "'0F0>1': another stage, which F has not"],
    ['0SEND_F0<1\n', "'0SEND_F0<1': the wrong arrow: SEND_F has >"],
    [
      '0F0,0SEND_F0,0B0\n',
      "cell 2, '0SEND_F0': an action that is added when a schedule is lowered. Leave it out, or use readLoweredSchedule",
    ],
    ['(0F0;0UNSHARD)OVERLAP_F_B\n', '0UNSHARD, which is no computation, in a pair'],
    ['(0F0)OVERLAP_F_B\n', 'not of the form'],
    ['0F0,0B0,2F0,2B0\n', 'no row with stage 1, but one with stage 2'],
    ['0F999999\n', '1 actions, and the forwards alone are 1000000'],
    ['', 'a schedule from text: no action. Write a row for each rank'],
    ['0F0,0B0\n\n', 'rank 1 without a stage'],
    ['\n'.repeat(5000), '5000 rows. Give 4096 rows at most'],
    ['0F0,0B0\n1B0,1F0\n', 'rank 1 at action 0, 1B0: it comes before 1F0'],
    [`${'9'.repeat(50)}F0`, 'not of the form'],
  ])('that is none is an error that says where: %j', (text, says) => {
    expect(() => readSchedule(text)).toThrow(says);
  });
});

describe('a schedule with random mistakes', () => {
  it('a schedule with random mistakes is read, or is an error of ours', () => {
    const random = generator(7);
    const letters = '0123456789FBIW,;()_<>\n SENDRCVOVERLAP-.e';
    const text = writeSchedule(pipelineSchedule('dualPipeV', { ranks: 2, microbatches: 4 }));
    let errors = 0;
    for (let turn = 0; turn < 2000; turn++) {
      const at = Math.floor(random() * text.length);
      const length = Math.floor(random() * 3);
      const added = letters.charAt(Math.floor(random() * letters.length));
      const mistaken = text.slice(0, at) + (random() < 0.7 ? added : '') + text.slice(at + length);
      for (const read of [readSchedule, readLoweredSchedule]) {
        try {
          read(mistaken);
        } catch (error) {
          if (!ShardwiseError.isInstance(error)) throw error;
          errors++;
        }
      }
    }
    expect(errors).toBeGreaterThan(2000);
  });
});

describe('what ranks execute', () => {
  const lowered = lowerSchedule(pipelineSchedule('1f1b', { ranks: 2, microbatches: 2 }));
  // 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
  // 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1
  const text = (rank: number, order: readonly number[]): string =>
    linesOf(lowered)
      .map((line, index) => {
        const cells = line.split(' ');
        return index === rank ? order.map((cell) => cells[cell]).join(',') : cells.join(',');
      })
      .join('\n');

  it('what ranks execute is checked: of two swapped messages the ranks are named that then wait for each other', () => {
    expect(() => readLoweredSchedule(text(0, [0, 4, 1, 2, 3, 5, 6, 7]))).toThrow(
      'no rank can go on: rank 0 at action 1, 0RECV_B0, waits for 1SEND_B0 of rank 1; rank 1 at action 0, 1RECV_F0, waits for 0SEND_F0 of rank 0',
    );
  });

  it.each([
    [[1, 0, 2, 3, 4, 5, 6, 7], 'rank 0 at action 0, 0SEND_F0: it sends what comes later'],
    [[0, 2, 3, 4, 5, 6, 7], 'rank 1 at action 0, 1RECV_F0: rank 0 has no 0SEND_F0. Add 0SEND_F0'],
    [[0, 1, 1, 2, 3, 4, 5, 6, 7], 'rank 0 at action 2, 0SEND_F0: the message stands here twice'],
    [[0, 1, 2, 3, 5, 4, 6, 7], 'rank 0 at action 4, 0B0, waits for 0RECV_B0 of rank 0'],
  ])('is checked: %j', (order, says) => {
    expect(() => readLoweredSchedule(text(0, order))).toThrow(says);
  });

  it.each([
    [
      '0F0,0UNSHARD,0B0\n',
      'action 0, 0F0: the parameters of stage 0 are not there. Put 0UNSHARD first',
    ],
    ['0UNSHARD,0F0,0RESHARD,0B0\n', 'action 3, 0B0: the parameters of stage 0 are not there'],
    ['0UNSHARD,0UNSHARD,0F0,0B0\n', 'action 1, 0UNSHARD: they are there already. Leave it out'],
    ['0UNSHARD,0F0,0B0,0RESHARD,0RESHARD\n', 'action 4, 0RESHARD: they are not there'],
    [
      '0F0,0F1,0B0,0REDUCE_GRAD,0B1\n',
      'action 4, 0B1: it adds to gradients that were reduced. Reduce them behind it',
    ],
    ['0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n', 'action 3, 0REDUCE_GRAD: it was done before'],
  ])(
    'has parameters when they are used, and reduces gradients when they are complete: %j',
    (csv, says) => {
      expect(() => readLoweredSchedule(csv)).toThrow(says);
    },
  );

  it('what ranks execute has only messages of its edges', () => {
    expect(() => checkLoweredSchedule({ ...lowered, edges: [] })).toThrow(
      'rank 0 at action 1, 0SEND_F0: no edge from stage 0 to stage 1. Name it in the edges',
    );
  });
});

describe('slots for activations', () => {
  it('slots for activations are taken by the forward and given back by the weight gradient, not by the input gradient', () => {
    const [rank] = activationSlots(readSchedule('0F0,0F1,0I0,0F2,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3'));
    expect(rank?.slots).toBe(3);
    expect(rank?.activations.map(({ slot }) => slot)).toEqual([0, 1, 2, 0]);
    expect(rank?.activations[0]).toEqual({ stage: 0, microbatch: 0, slot: 0, from: 0, to: 4 });
  });

  it.each(scheduleNames)('are as many as a rank keeps activations at once: %s', (name) => {
    const schedule = pipelineSchedule(name, { ranks: 4, microbatches: 8 });
    const peaks = simulateSchedule(schedule).ranks.map((rank) => rank.peakMicrobatches);
    expect(activationSlots(schedule).map(({ slots }) => slots)).toEqual(peaks);
  });

  it('slots for activations are never of two activations at once', () => {
    const schedule = pipelineSchedule('zbv', { ranks: 4, microbatches: 12 });
    for (const { activations } of activationSlots(schedule)) {
      for (const a of activations) {
        const others = activations.filter((b) => b !== a && b.slot === a.slot);
        expect(others.every((b) => b.to < a.from || b.from > a.to)).toBe(true);
      }
      expect(activations).toHaveLength(24);
    }
  });
});
