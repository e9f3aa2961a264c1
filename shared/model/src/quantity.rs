//! Exact parsing of Kubernetes quantities: `1500m`, `2Gi`, `1e3`, `0.5`.

use thiserror::Error;

/// A quantity in thousandths, the finest unit that the scheduler needs. Finer quantities are rounded up, as in
/// Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    milli: i128,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "\"{text}\" is not a quantity: expected a number with an optional suffix such as 500m, 2, 1.5Gi or 1e3"
)]
pub struct QuantityError {
    text: String,
}

impl Quantity {
    /// Thousandths, clamped to the range of `i64`.
    pub fn milli(self) -> i64 {
        clamp(self.milli)
    }

    /// Whole units, rounded up and clamped to the range of `i64`.
    pub fn ceil(self) -> i64 {
        clamp(-(-self.milli).div_euclid(1000))
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text)
            .map(|milli| Self { milli })
            .ok_or_else(|| QuantityError {
                text: text.to_owned(),
            })
    }
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn parse(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let end = digits
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole = decimal(whole)?;
    let scale = scale(suffix)?;
    let milli = if fraction.is_empty() {
        scaled(whole.saturating_mul(1000), &scale)
    } else {
        let mantissa = whole
            .checked_mul(POW_FRACTION)?
            .checked_add(fraction_of(fraction)?)?;
        ceil_div(scaled(mantissa.checked_mul(1000)?, &scale), POW_FRACTION)
    };
    Some(if negative { -milli } else { milli })
}

/// Digits kept after the decimal point; Kubernetes itself keeps nine.
const FRACTION_DIGITS: usize = 9;
const POW_FRACTION: i128 = 1_000_000_000;

fn scaled(number: i128, scale: &Scale) -> i128 {
    match scale {
        Scale::Times(factor) => number.saturating_mul(*factor),
        Scale::Divided(divisor) => ceil_div(number, *divisor),
    }
}

fn ceil_div(number: i128, divisor: i128) -> i128 {
    let floor = number.div_euclid(divisor);
    floor + i128::from(floor * divisor != number)
}

enum Scale {
    Times(i128),
    Divided(i128),
}

fn scale(suffix: &str) -> Option<Scale> {
    let exponent = |text: &str| -> Option<Scale> {
        let power: i32 = text.parse().ok()?;
        let factor = 10_i128.checked_pow(power.unsigned_abs())?;
        Some(if power < 0 {
            Scale::Divided(factor)
        } else {
            Scale::Times(factor)
        })
    };
    Some(match suffix {
        "" => Scale::Times(1),
        "n" => Scale::Divided(1_000_000_000),
        "u" => Scale::Divided(1_000_000),
        "m" => Scale::Divided(1_000),
        "k" => Scale::Times(1_000),
        "M" => Scale::Times(1_000_000),
        "G" => Scale::Times(1_000_000_000),
        "T" => Scale::Times(1_000_000_000_000),
        "P" => Scale::Times(1_000_000_000_000_000),
        "E" => Scale::Times(1_000_000_000_000_000_000),
        "Ki" => Scale::Times(1 << 10),
        "Mi" => Scale::Times(1 << 20),
        "Gi" => Scale::Times(1 << 30),
        "Ti" => Scale::Times(1 << 40),
        "Pi" => Scale::Times(1 << 50),
        "Ei" => Scale::Times(1 << 60),
        _ => return exponent(suffix.strip_prefix(['e', 'E'])?),
    })
}

fn decimal(digits: &str) -> Option<i128> {
    if digits.is_empty() {
        Some(0)
    } else {
        digits.parse().ok()
    }
}

fn fraction_of(digits: &str) -> Option<i128> {
    let kept: String = digits
        .chars()
        .chain(std::iter::repeat('0'))
        .take(FRACTION_DIGITS)
        .collect();
    let lost = digits.chars().skip(FRACTION_DIGITS).any(|c| c != '0');
    Some(kept.parse::<i128>().ok()? + i128::from(lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milli(text: &str) -> i64 {
        text.parse::<Quantity>().unwrap().milli()
    }

    #[test]
    fn suffixes_scale_exactly() {
        assert_eq!(milli("1500m"), 1_500);
        assert_eq!(milli("0.5"), 500);
        assert_eq!(milli("2Gi"), 2_147_483_648_000);
        assert_eq!(milli("1.5Ki"), 1_536_000);
        assert_eq!(milli("1e3"), 1_000_000);
        assert_eq!(milli("12E-1"), 1_200);
        assert_eq!(milli("-1"), -1_000);
    }

    #[test]
    fn finer_than_a_thousandth_rounds_up() {
        assert_eq!(milli("100u"), 1);
        assert_eq!("1500m".parse::<Quantity>().unwrap().ceil(), 2);
    }

    #[test]
    fn absurd_sizes_clamp_instead_of_wrapping() {
        assert_eq!(milli("9000E"), i64::MAX);
        assert_eq!("1e30".parse::<Quantity>().unwrap().ceil(), i64::MAX);
    }

    #[test]
    fn invalid_quantity_is_named_in_error() {
        for text in ["", "m", "1.2.3", "1x", "--1", "1e", "Gi"] {
            let error = text.parse::<Quantity>().unwrap_err().to_string();
            assert!(error.contains(&format!("\"{text}\"")), "{error}");
        }
    }
}
