"""The metrics once more: one pair at a time, with ifs, straight from the table of definitions."""

import math


def metrics(pairs):
    """All metrics of a list of (y++, y+-, y-+, y--), each "yes", "no" or None; None = undefined."""
    quad = cqp = rqn = cvp = rvn = vs = qs = sve = yes = 0
    failed = omiss = swap = hall = viol = odd = 0
    tp = fn = fp = tn = 0
    for pair in pairs:
        pp, pn, np_, nn = pair
        for i, answer in enumerate(pair):
            if answer == "yes":
                yes += 1
            if i == 0:
                if answer == "yes":
                    tp += 1
                else:
                    fn += 1
            elif answer == "no":
                tn += 1
            else:
                fp += 1
        if pp == "yes" and np_ == "no":
            cqp += 1
        if pn == "no" and nn == "no":
            rqn += 1
        if pp == "yes" and pn == "no":
            cvp += 1
        if np_ == "no" and nn == "no":
            rvn += 1
        video_changed = (pp == "yes" and np_ == "no") or (pp == "no" and np_ == "yes")
        if video_changed:
            vs += 1
        if (pp == "yes" and pn == "no") or (pp == "no" and pn == "yes"):
            qs += 1
        if video_changed and pn is not None and pn == nn:
            sve += 1
        if pp == "yes" and pn == "no" and np_ == "no" and nn == "no":
            quad += 1
            continue
        failed += 1
        if pp == "no":
            omiss += 1
        if pn == "yes":
            swap += 1
        if np_ == "yes" or nn == "yes":
            hall += 1
        if (pp == "yes" and pn == "yes") or (np_ == "yes" and nn == "yes"):
            viol += 1
        if None in pair:
            odd += 1

    def percent(part, whole):
        return 100 * part / whole if whole else None

    n = len(pairs)
    out = {"quad_acc": percent(quad, n), "contr_q_pos": percent(cqp, n)}
    out |= {"reject_q_neg": percent(rqn, n), "contr_v_pos": percent(cvp, n)}
    out |= {"reject_v_neg": percent(rvn, n), "vs": percent(vs, n), "qs": percent(qs, n)}
    out |= {"sve": percent(sve, n), "pos_omiss": percent(omiss, failed)}
    out |= {"pos_swap": percent(swap, failed), "neg_hall": percent(hall, failed)}
    out |= {"me_viol": percent(viol, failed), "unparsed_failed": percent(odd, failed)}
    out |= {"accuracy": percent(tp + tn, 4 * n), "precision": percent(tp, tp + fp)}
    out |= {"recall": percent(tp, n), "f1": percent(2 * tp, 2 * tp + fp + fn)}
    out |= {"yes_rate": percent(yes, 4 * n), "vri": percent(vs, vs + qs)}
    if n == 0:
        rest = ("video_consistency", "question_consistency", "ba_acc", "mcc", "mcc_score", "gvrs")
        return out | dict.fromkeys(rest)
    out["video_consistency"] = (out["contr_q_pos"] + out["reject_q_neg"]) / 2
    out["question_consistency"] = (out["contr_v_pos"] + out["reject_v_neg"]) / 2
    out["ba_acc"] = 100 * (tp / (tp + fn) + tn / (tn + fp)) / 2
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    out["mcc"] = (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0
    out["mcc_score"] = 100 * ((out["mcc"] + 1) / 2) ** 2
    out["gvrs"] = 2 * out["vri"] / 100 * out["qs"] if vs + qs else 0.0
    return out


def card(pairs):
    n = len(pairs)
    quad = sum(pair == ("yes", "no", "no", "yes") for pair in pairs)
    both = sum(pair[0] == "yes" and pair[3] == "yes" for pair in pairs)
    return {"quad_acc": 100 * quad / n, "ba_acc": 100 * both / n}
