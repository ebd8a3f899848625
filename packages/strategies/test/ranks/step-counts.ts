/**
 * How many steps the tables of strategies train. After the third step an optimizer does nothing that it has not done
 * before, so a few steps show whether ranks train as one rank does. Many steps show that rounding errors stay small.
 */
export const stepCounts = { few: 4, many: 20 } as const;
