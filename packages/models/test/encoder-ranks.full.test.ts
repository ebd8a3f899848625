import { testEncodersOnRanks } from './encoder-ranks-table.ts';

// The slow test has all encoders under every strategy.
testEncodersOnRanks({ hasAll: false });
